// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/all_reduce_peers.h"

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <map>
#include <stdexcept>

namespace c10dd::bench {
namespace {

constexpr int kPeerSkipped = 77;

// Without a single quote: it is an argument of the shell.
constexpr const char* kTorch = R"(
import os, sys, tempfile, time
try:
    import torch, torch.distributed as dist
except ImportError as e:
    print(e)
    sys.exit(77)
ranks, seconds, sizes = int(sys.argv[1]), float(sys.argv[2]), [int(a) for a in sys.argv[3:]]
torch.set_num_threads(1)
def live(rank, path):
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group("gloo", init_method="file://" + path, rank=rank, world_size=ranks)
    for size in sizes:
        values = torch.zeros(size // 4)
        dist.all_reduce(values)
        begin = time.perf_counter_ns()
        dist.all_reduce(values)
        count = torch.tensor([int(seconds * 1e9 / (time.perf_counter_ns() - begin)) + 5])
        dist.broadcast(count, 0)
        for _ in range(count.item()):
            begin = time.perf_counter_ns()
            dist.all_reduce(values)
            if rank == 0:
                print(size, time.perf_counter_ns() - begin)
with tempfile.TemporaryDirectory() as folder:
    children = []
    for rank in range(1, ranks):
        pid = os.fork()
        if pid == 0:
            live(rank, folder + "/store")
            os._exit(0)
        children.append(pid)
    live(0, folder + "/store")
    sys.stdout.flush()
    for pid in children:
        os.waitpid(pid, 0)
)";

std::string mpi_program() {
  const auto own = std::filesystem::read_symlink("/proc/self/exe");
  return (own.parent_path().parent_path() / "libexec/c10dd/c10dd-bench-mpi").string();
}

std::string torch_command(const std::string& arguments) {
  return std::string("exec /usr/bin/python3 -c '") + kTorch + "' " + arguments + " 2>&1";
}

std::string mpi_command(unsigned ranks, const std::string& arguments) {
  const std::string program = mpi_program();
  return "test -x '" + program + "' || { echo 'was built without MPI'; exit 77; }; " +
         "command -v mpirun >/dev/null || { echo 'mpirun is not installed'; exit 77; }; " +
         "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
         "exec mpirun --oversubscribe -n " +
         std::to_string(ranks) + " '" + program + "' " + arguments + " 2>&1";
}

/// Runs the command, and adds what it prints to `took`, by size. Returns why it has been skipped,
/// or an empty text.
std::string run(const std::string& name, const std::string& command,
                std::map<std::size_t, Histogram>& took) {
  std::FILE* const output = ::popen(command.c_str(), "r");
  if (output == nullptr) throw std::runtime_error(name + ": cannot start a shell");
  std::string last;
  std::array<char, 4096> line{};
  while (std::fgets(line.data(), static_cast<int>(line.size()), output) != nullptr) {
    unsigned long long bytes = 0;
    long long nanoseconds = 0;
    if (std::sscanf(line.data(), "%llu %lld", &bytes, &nanoseconds) == 2) {
      took[bytes].add(nanoseconds);
    } else {
      last = line.data();
      last.erase(last.find_last_not_of('\n') + 1);
    }
  }
  const int status = ::pclose(output);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kPeerSkipped) return name + ": " + last;
  if (status != 0) throw std::runtime_error(name + ": " + last);
  return "";
}

}  // namespace

AllReducePeers::AllReducePeers(const Options& options, unsigned ranks,
                               std::vector<std::size_t> sizes, std::size_t own,
                               ScenarioResult& result)
    : sizes_(std::move(sizes)), own_(own) {
  std::string arguments = std::to_string(options.seconds);
  for (const std::size_t bytes : sizes_) arguments += " " + std::to_string(bytes);
  for (const Peer& peer : options.against) {
    const bool torch = peer.kind == Peer::Kind::torch;
    if (!torch && peer.kind != Peer::Kind::mpi) continue;
    OtherLibrary library;
    library.name = torch ? "torch" : "mpi";
    library.command = torch ? torch_command(std::to_string(ranks) + " " + arguments)
                            : mpi_command(ranks, arguments);
    library.first = result.series.size();
    const std::string how = torch ? "PyTorch's backend gloo" : "MPI_Allreduce";
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      const std::string& ours = result.series[own_ + i].name;
      result.series.push_back({ours.substr(0, ours.find(',')) + ", " + library.name, how, {}});
    }
    libraries_.push_back(std::move(library));
  }
}

void AllReducePeers::run_round(ScenarioResult& result) {
  for (OtherLibrary& library : libraries_) {
    if (library.missing) continue;
    std::map<std::size_t, Histogram> took;
    const std::string skipped = run(library.name, library.command, took);
    library.missing = !skipped.empty();
    if (library.missing) {
      result.skipped += (result.skipped.empty() ? "" : "; ") + skipped;
      continue;
    }
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      const Histogram& each = took[sizes_[i]];
      const double seconds = each.quantile(0.5) * 1e-9 * static_cast<double>(each.count());
      result.series[library.first + i].rounds.push_back(sample_of(each, seconds));
    }
  }
}

void AllReducePeers::add_ratios(ScenarioResult& result) const {
  for (const OtherLibrary& library : libraries_) {
    if (library.missing) continue;
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      const Series& theirs = result.series[library.first + i];
      Fact fact{theirs.name + ": p50 of c10dd alone to it", "x", {}, 2};
      fact.rounds.push_back(ratio(result.series[own_ + i], theirs, &Sample::p50));
      result.facts.push_back(std::move(fact));
    }
  }
  std::erase_if(result.series, [](const Series& one) { return one.rounds.empty(); });
}

}  // namespace c10dd::bench
