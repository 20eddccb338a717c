// SPDX-License-Identifier: Apache-2.0
// c10dd-matrix: runs every operation with every type, reduction, number of ranks and size on every
// backend, against a serial computation. The ranks are threads (loopback), processes that mpirun
// starts (mpi), or both, one after the other.
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "client/client.h"
#include "protocol/format.h"
#include "tests/integration/daemon_process.h"
#include "tests/matrix/cells.h"
#include "tests/matrix/faults.h"
#include "tests/matrix/report.h"
#include "tests/matrix/worker.h"
#include "tests/unit/collectives/thread_ranks.h"
#include "tests/unit/temporary_directory.h"

namespace c10dd::matrix {
namespace {

struct Options {
  std::vector<std::string> backends = {"loopback", "gloo", "mpi"};
  bool pairs = false;
  bool no_large = false;
  std::string ranks;  // a kind of ranks, or both
  std::uint64_t seed = 1;
  std::string write;
  int fault = -1;
  bool lists_plants = false;
  std::string worker;  // the results' directory; this process is a rank
};

/// Returns the cells that the options allow.
std::vector<Cell> cells_of(const Options& options, const std::string& backend) {
  std::vector<Cell> cells = all_cells(backend);
  std::erase_if(cells, [&](const Cell& cell) {
    return (options.no_large && cell.size == Size::large) ||
           (!options.ranks.empty() && options.ranks != name_of(cell.ranks_as));
  });
  if (cells.empty()) throw std::runtime_error(backend + " has no ranks as " + options.ranks);
  return cells;
}

Plan plan_of(const Options& options, const std::string& backend) {
  Plan plan{.backend = backend, .cells = cells_of(options, backend), .seed = options.seed};
  if (options.pairs) plan.cells = choose_pairs(plan.cells, options.seed);
  if (options.fault >= 0) plan.fault = static_cast<std::size_t>(options.fault);
  return plan;
}

/// Runs the ranks as threads of this process.
void run_threads(const Plan& plan, const std::string& url, const std::filesystem::path& results) {
  test::run_ranks(kRanksMax, [&](Rank rank) {
    try {
      run_rank(plan, RanksAs::threads, Client::connect(url), rank, results);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "rank %u: %s\n", rank, error.what());
    }
  });
}

/// Starts a program with variables added to its environment.
pid_t start(const std::vector<std::string>& words,
            const std::map<std::string, std::string>& variables) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const pid_t pid = fork();
  if (pid != 0) return pid;
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  execvp(arguments[0], arguments.data());
  std::fprintf(stderr, "c10dd-matrix: %s: cannot be started\n", arguments[0]);
  _exit(127);
}

/// Runs the ranks as processes: this program with --worker.
void run_processes(const Options& options, const Plan& plan, const std::string& url,
                   const std::filesystem::path& results) {
  std::vector<std::string> words = {std::filesystem::read_symlink("/proc/self/exe"),
                                    "--worker",
                                    results.string(),
                                    "--backend",
                                    plan.backend,
                                    "--seed",
                                    std::to_string(plan.seed)};
  if (options.pairs) words.emplace_back("--pairs");
  if (options.no_large) words.emplace_back("--no-large");
  if (!options.ranks.empty()) words.insert(words.end(), {"--ranks", options.ranks});
  if (plan.fault) words.insert(words.end(), {"--plant", std::to_string(*plan.fault)});
  std::vector<pid_t> children;
  if (plan.backend == "mpi") {
    words.insert(words.begin(), {"mpirun", "--oversubscribe", "-n", std::to_string(kRanksMax)});
    children.push_back(start(words, {{"C10DD_URL", url},
                                     {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                                     {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}}));
  } else {
    for (Rank rank = 0; rank < kRanksMax; ++rank) {
      children.push_back(start(words, {{"C10DD_URL", url},
                                       {"C10DD_RANK", std::to_string(rank)},
                                       {"C10DD_WORLD_SIZE", std::to_string(kRanksMax)}}));
    }
  }
  for (const pid_t child : children) waitpid(child, nullptr, 0);
}

int work(const Options& options) {
  const auto client = Client::from_environment();
  run_rank(plan_of(options, options.backends.front()), RanksAs::processes, client, client->rank(),
           options.worker);
  return 0;
}

/// Returns how many cells are wrong.
std::size_t run_backend(const Options& options, const std::string& backend, Report& report) {
  const Plan plan = plan_of(options, backend);
  test::DaemonProcess daemon("memory:");
  daemon.start();
  const std::string url = "c10dd://" + daemon.address() + "/matrix";
  const TemporaryDirectory directory;
  const auto start = std::chrono::steady_clock::now();
  if (has_ranks_as(plan, RanksAs::processes)) {
    run_processes(options, plan, url, directory.path());
  }
  if (has_ranks_as(plan, RanksAs::threads)) run_threads(plan, url, directory.path());
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  const Result result = collect(plan, directory.path());
  std::size_t wrong = 0;
  constexpr std::size_t kShown = 20;
  for (std::size_t i = 0; i < plan.cells.size(); ++i) {
    if (result.wrong[i].empty()) continue;
    if (++wrong > kShown) continue;
    std::printf("  wrong: %s: %s\n", plan.cells[i].text().c_str(), result.wrong[i].c_str());
  }
  std::printf("%s (%s): %zu cells, %zu wrong, %zu pairs not covered, %.1f s\n", backend.c_str(),
              result.describe.c_str(), plan.cells.size(), wrong,
              uncovered_pairs(cells_of(options, backend), plan.cells), took.count());
  report.add(plan, result);
  return wrong;
}

int run(const Options& options) {
  std::size_t wrong = 0;
  Report report(options.pairs);
  for (const std::string& backend : options.backends) {
    wrong += run_backend(options, backend, report);
    std::fflush(stdout);
  }
  if (!options.write.empty()) std::ofstream(options.write) << report.text();
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace c10dd::matrix

int main(int argc, char** argv) {
  c10dd::matrix::Options options;
  CLI::App app{"Runs every operation of process groups on every backend, and checks the results"};
  app.add_option("--backend", options.backends, "Backends, such as gloo,mpi")->delimiter(',');
  app.add_flag("--pairs", options.pairs, "Only as many cells as have every pair of values");
  app.add_flag("--no-large", options.no_large, "Leaves out the large tensors");
  app.add_option("--ranks", options.ranks, "Only ranks of this kind: processes or threads")
      ->check(CLI::IsMember({"processes", "threads"}));
  app.add_option("--seed", options.seed, "Seed of the inputs, and of the choice of pairs");
  app.add_option("--write", options.write, "File that gets the table, such as docs/backends.md");
  app.add_option("--plant", options.fault, "Plants a fault: cells must be wrong")
      ->check(CLI::Range(0, static_cast<int>(c10dd::matrix::kFaults.size()) - 1));
  app.add_flag("--list-plants", options.lists_plants, "Prints the faults that --plant has");
  app.add_option("--worker", options.worker, "Is one rank; for this program's own use")->group("");
  CLI11_PARSE(app, argc, argv);
  if (options.lists_plants) {
    for (const std::string_view fault : c10dd::matrix::kFaults) {
      std::printf("%s\n", std::string(fault).c_str());
    }
    return 0;
  }
  try {
    return options.worker.empty() ? run(options) : work(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "c10dd-matrix: %s\n", error.what());
    return 2;
  }
}
