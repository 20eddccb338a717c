// SPDX-License-Identifier: Apache-2.0
// c10dd-torture: kills the real daemon under real clients at random moments, again and again, and
// compares the replies to the clients with the state of the restarted daemon. With --daemons it
// does so to the daemons of a fleet, which also loses its connections to Redis. Exit codes: 0 no
// fault was found; 1 a fault was found, which the output describes; 64 bad option.
#include <signal.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <optional>

#include "protocol/random.h"
#include "tests/integration/cluster_files.h"
#include "tests/torture/conductor.h"
#include "tests/torture/worker.h"

namespace c10dd::torture {
namespace {

constexpr int kBadOption = 64;
constexpr unsigned kFleet = 3;  // daemons on one Redis, unless --daemons says more

std::atomic<bool> interrupted = false;

struct CommandLine {
  Settings settings;
  std::string parent;    ///< of the directory
  bool discard = false;  ///< the directory, whatever was found
  bool tls = false;      ///< between the daemons and all clients
  WorkerOptions worker;
  bool is_worker = false;
};

/// Fills in what follows from other options. Exits if they do not fit together.
void complete(Settings& s, bool daemons_given, bool tls) {
  s.redis_tls = s.daemon.engine == "rediss";
  const bool is_fleet = s.redis_tls || s.daemon.engine == "redis";
  if (is_fleet && !daemons_given) s.daemons = kFleet;
  if ((s.daemons > 1) != is_fleet) {
    std::cerr << "c10dd-torture: --daemons is " << s.daemons << " and --engine is "
              << s.daemon.engine
              << "; --engine redis or rediss is for 2 daemons or more, and only they\n";
    std::exit(kBadOption);
  }
  if (!C10DD_WITH_TLS && (tls || s.redis_tls)) {
    std::cerr
        << "c10dd-torture: --tls and --engine rediss need OpenSSL, without which this program "
           "was built; install libssl-dev and build it again\n";
    std::exit(kBadOption);
  }
}

/// Exits by itself after --help and on a bad option.
CommandLine parse(int argc, char** argv) {
  CommandLine line;
  Settings& s = line.settings;
  s.program = std::filesystem::read_symlink("/proc/self/exe");
  s.daemon.program = std::filesystem::path(s.program).replace_filename("c10dd");
  s.daemon.engine = "rocksdb:DIR";
  s.daemon.durability = "fsync";
  s.seed = random_number();
  line.parent = std::filesystem::temp_directory_path();
  CLI::App app{"Kills the daemon under load, again and again, and checks what its clients saw.",
               "c10dd-torture"};
  app.set_help_flag("-h,--help", "print this");
  app.option_defaults()->take_last();
  app.add_option("--cycles", s.cycles, "how often, default 100")->check(CLI::Range(1U, 1'000'000U));
  app.add_option("--seed", s.seed, "of everything that is chosen; when things happen differs");
  app.add_option(
      "--engine", s.daemon.engine,
      "default rocksdb:DIR; DIR is a directory made for it; redis, rediss: a redis-server made for "
      "several daemons, which speak TLS with it if it is rediss");
  auto* daemons = app.add_option("--daemons", s.daemons, "on one Redis, default 3; otherwise 1")
                      ->check(CLI::Range(1U, 8U));
  app.add_flag("--tls", line.tls, "the daemons serve over TLS, and all clients show a token");
  app.add_option("--lease", s.lease, "of these daemons in seconds, default 2")
      ->check(CLI::Range(1U, 60U));
  app.add_option("--durability", s.daemon.durability, "default fsync");
  app.add_option("--daemon", s.daemon.program, "instead of the c10dd beside this program")
      ->check(CLI::ExistingFile);
  app.add_option("--processes", s.workers, "with clients, default 3")->check(CLI::Range(1U, 16U));
  app.add_option("--round", s.round, "cycles until everything is judged, default 20")
      ->check(CLI::Range(1U, 1000U));
  app.add_option("--keys", s.keys, "of 100 B that are there all the time, default 0")
      ->check(CLI::Range(0U, 4'000'000U));
  app.add_option("--directory", line.parent, "where state and histories lie, default the system's")
      ->check(CLI::ExistingDirectory);
  app.add_flag("--discard", line.discard, "keep no directory when something is wrong");
  auto* worker = app.add_option("--worker", line.worker.number)->group("");
  app.add_option("--url", line.worker.url)->group("");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    std::exit(app.exit(e) == 0 ? 0 : kBadOption);
  }
  complete(s, daemons->count() > 0, line.tls);
  line.is_worker = worker->count() > 0;
  line.worker.seed = s.seed;
  return line;
}

double percentile(std::vector<double> sorted, double share) {
  if (sorted.empty()) return 0;
  std::sort(sorted.begin(), sorted.end());
  return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
}

void print(const Figures& f) {
  const auto line = [](const char* name, std::uint64_t value) {
    std::printf("%-22s %llu\n", name, static_cast<unsigned long long>(value));
  };
  const Disturbances& d = f.disturbances;
  line("cycles", f.cycles);
  line("  SIGKILL", d.killed);
  line("  killed in the start", d.starts_killed);
  line("  frozen", d.frozen);
  line("  ended by SIGTERM", d.ended_gently);
  line("  cut off from Redis", d.links_cut);
  line("  forgotten by Redis", d.forgotten);
  line("takeovers", d.takeovers);
  line("deposed daemons asked", d.deposed_asked);
  line("client processes killed", f.processes_killed);
  line("operations", f.calls);
  line("acknowledged", f.acknowledged);
  line("sent again", f.reissued);
  for (std::size_t i = 0; i < kFaults; ++i) {
    line(std::string(kFaultNames[i]).c_str(), f.verdict.counts[i]);
  }
  line("changes watched", f.watched);
  line("keys searched", f.verdict.searched.keys);
  line("  undecided", f.verdict.searched.undecided);
  line("failed restarts", d.failed_restarts);
  std::vector<double> all;
  const auto times = [](const std::string& name, const std::vector<double>& ms) {
    std::printf("%-22s p50 %.0f ms, p99 %.0f ms, max %.0f ms\n", name.c_str(), percentile(ms, 0.5),
                percentile(ms, 0.99), percentile(ms, 1));
  };
  for (const auto& [name, ms] : d.serving_ms) all.insert(all.end(), ms.begin(), ms.end());
  times("until served again", all);
  for (const auto& [name, ms] : d.serving_ms) {
    if (d.serving_ms.size() > 1) times("  " + name, ms);
  }
  std::fflush(stdout);
}

/// Makes the daemons serve over TLS only; from now on all clients, also of child processes, show a
/// token.
void encrypt(Settings& settings) {
  const test::ClusterFiles files(
      std::filesystem::path(settings.program).replace_filename("c10ddctl"),
      settings.daemon.directory);
  settings.daemon.further = {"--tls", files.daemon()};
  ::setenv("C10DD_TOKEN_FILE", files.token().c_str(), 1);
}

int torture(CommandLine line) {
  std::string directory = line.parent + "/c10dd-torture-XXXXXX";
  if (::mkdtemp(directory.data()) == nullptr) {
    throw std::runtime_error("cannot make a directory in " + line.parent);
  }
  line.settings.daemon.directory = directory;
  if (line.tls) encrypt(line.settings);
  std::cerr << "seed " << line.settings.seed << ", directory " << directory << std::endl;
  bool good = false;
  {
    Conductor conductor(line.settings);
    const Figures& figures = conductor.run(interrupted);
    good = figures.good();
    print(figures);
    for (const std::string& text : figures.verdict.evidence) std::cout << text << "\n";
  }
  if (good || line.discard) std::filesystem::remove_all(directory);
  if (good) return 0;
  std::cout << "FAILED with --seed " << line.settings.seed;
  if (!line.discard) std::cout << "; histories, state and log are in " << directory;
  std::cout << std::endl;
  return 1;
}

int run(int argc, char** argv) {
  CommandLine line = parse(argc, argv);
  ::signal(SIGPIPE, SIG_IGN);
  if (line.is_worker) return run_worker(line.worker);
  for (const int number : {SIGINT, SIGTERM}) ::signal(number, [](int) { interrupted = true; });
  return torture(std::move(line));
}

}  // namespace
}  // namespace c10dd::torture

int main(int argc, char** argv) {
  try {
    return c10dd::torture::run(argc, argv);
  } catch (const std::exception& e) {
    std::cerr << "c10dd-torture: " << e.what() << "\n";
    return 1;
  }
}
