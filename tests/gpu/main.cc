// SPDX-License-Identifier: Apache-2.0
// Tests the backend nccl on a real GPU: starts a daemon, and the ranks of each scenario as
// processes that share a GPU if there are not enough. Exits with 77, and says what is missing,
// where there is no GPU, driver or NCCL. The ranks that share a GPU are told to NCCL as hosts of
// their own, which works for tests only.
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "collectives/nccl/cuda_driver.h"
#include "collectives/nccl/library.h"
#include "tests/gpu/scenarios.h"
#include "tests/integration/daemon_process.h"
#include "tests/integration/metrics.h"

extern char** environ;

namespace c10dd::gpu {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kSkipped = 77;
constexpr auto kLimit = std::chrono::seconds(120);  // of a scenario

/// Prints what is missing, and returns the number of GPUs, or 0. Runs in a process of its own, so
/// that this one does not use a GPU.
int probe() {
  const auto cuda = collectives::nccl::Cuda::start();
  const auto library = collectives::nccl::Library::load();
  if (!cuda || !library) {
    std::printf("skipped: %s\n", (!cuda ? cuda.error() : library.error()).detail.c_str());
    return 0;
  }
  const auto device = (*cuda)->device(0);
  if (!device) {
    std::printf("skipped: %s\n", device.error().detail.c_str());
    return 0;
  }
  std::printf("%d GPUs, the first is %s; NCCL %s\n", (*cuda)->devices(), (*device)->name().c_str(),
              (*library)->version_text().c_str());
  return (*cuda)->devices();
}

/// The path of this program. /proc/self/exe is not it if a loader was named on the command line.
std::string own_path() {
  const char* const folder = std::getenv("C10DD_BIN");
  return folder == nullptr ? "/proc/self/exe" : std::string(folder) + "/c10dd-gpu-check";
}

/// Starts this program with other arguments, and with more variables in its environment.
pid_t start(std::vector<std::string> words, std::vector<std::string> variables) {
  const std::string program = own_path();
  words.insert(words.begin(), program);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::vector<char*> environment;
  for (std::string& variable : variables) environment.push_back(variable.data());
  for (char** one = environ; *one != nullptr; ++one) environment.push_back(*one);
  environment.push_back(nullptr);
  pid_t pid = 0;
  const int error =
      posix_spawn(&pid, program.c_str(), nullptr, nullptr, arguments.data(), environment.data());
  if (error != 0) throw std::runtime_error("posix_spawn: " + std::string(std::strerror(error)));
  return pid;
}

/// Returns the status of waitpid(). Kills the process at the deadline.
int await(pid_t pid, Clock::time_point deadline) {
  int status = 0;
  while (waitpid(pid, &status, WNOHANG) == 0) {
    if (Clock::now() > deadline) kill(pid, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return status;
}

/// Returns the environment of a rank. Ranks that share a GPU need all but the first four.
std::vector<std::string> environment_of(Rank rank, const Scenario& scenario, int gpus,
                                        const std::string& url) {
  std::vector<std::string> variables = {"C10DD_URL=" + url, "C10DD_RANK=" + std::to_string(rank),
                                        "C10DD_WORLD_SIZE=" + std::to_string(scenario.ranks)};
  if (static_cast<Rank>(gpus) >= scenario.ranks) {
    variables.push_back("C10DD_LOCAL_RANK=" + std::to_string(rank));
    return variables;
  }
  for (const char* one : {"NCCL_NET=Socket", "NCCL_SOCKET_IFNAME=lo", "NCCL_NVLS_ENABLE=0",
                          "NCCL_MAX_CTAS=2", "NCCL_IB_DISABLE=1"}) {
    variables.emplace_back(one);
  }
  variables.push_back("NCCL_HOSTID=rank-" + std::to_string(rank));
  return variables;
}

bool run(std::size_t number, int gpus, const std::string& daemon) {
  const Scenario& scenario = kScenarioList[number];
  const auto begin = Clock::now();
  const std::string url = "c10dd://" + daemon + "/gpu-" + std::to_string(number);
  std::vector<pid_t> pids;
  for (Rank rank = 0; rank < scenario.ranks; ++rank) {
    pids.push_back(
        start({"rank", std::to_string(number)}, environment_of(rank, scenario, gpus, url)));
  }
  bool good = true;
  for (Rank rank = 0; rank < scenario.ranks; ++rank) {
    const int status = await(pids[rank], begin + kLimit);
    const bool ended = rank == scenario.killed ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL
                                               : WIFEXITED(status) && WEXITSTATUS(status) == 0;
    good = good && ended;
  }
  std::printf("%s  %s, %u ranks, %.1f s\n", good ? "ok    " : "FAILED",
              std::string(scenario.name).c_str(), scenario.ranks,
              std::chrono::duration<double>(Clock::now() - begin).count());
  return good;
}

int run_rank(const char* number) {
  try {
    kScenarioList[std::strtoul(number, nullptr, 10) % kScenarios].run();
    return 0;
  } catch (const std::exception& error) {
    std::printf("  rank %s: %s\n", std::getenv("C10DD_RANK"), error.what());
    return 1;
  }
}

/// Runs the scenarios of these names, or all if there are no names.
int run_all(const std::vector<std::string_view>& names) {
  const int status = await(start({"probe"}, {}), Clock::now() + kLimit);
  const int gpus = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  if (gpus == 0) return kSkipped;
  test::DaemonProcess daemon("memory:");
  daemon.start();
  int failed = 0;
  bool counted = false;
  for (std::size_t number = 0; number < kScenarios; ++number) {
    if (!names.empty() && std::ranges::count(names, kScenarioList[number].name) == 0) continue;
    failed += run(number, gpus, daemon.address()) ? 0 : 1;
    const std::string metrics = test::metrics_of(daemon.address());
    counted = counted || metrics.find("backend=\"nccl\"") != std::string::npos;
  }
  std::printf("%s  metrics of the daemon\n", counted ? "ok    " : "FAILED");
  return failed == 0 && counted ? 0 : 1;
}

}  // namespace
}  // namespace c10dd::gpu

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const std::string command = argc > 1 ? argv[1] : "";
  if (command == "probe") return std::min(c10dd::gpu::probe(), 64);
  if (command == "rank" && argc > 2) return c10dd::gpu::run_rank(argv[2]);
  const std::vector<std::string_view> names(argv + 1, argv + argc);
  for (const std::string_view name : names) {
    if (std::ranges::count(c10dd::gpu::kScenarioList, name, &c10dd::gpu::Scenario::name) > 0)
      continue;
    std::fprintf(stderr, "usage: %s [NAME...]\nNames of scenarios:", argv[0]);
    for (const auto& one : c10dd::gpu::kScenarioList) std::fprintf(stderr, " %s", one.name.data());
    std::fprintf(stderr, "\n");
    return 64;
  }
  return c10dd::gpu::run_all(names);
}
