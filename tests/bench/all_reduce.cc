// SPDX-License-Identifier: Apache-2.0
// Scenario all-reduce. Ranks are processes that have two groups: one of c10dd with the backend
// gloo, and a bare context of Gloo. They call them in turns, c10dd, Gloo, Gloo, c10dd, so that
// whatever else the machine does slows down both. The ratio of each turn is one measurement. Beside
// other libraries, which have processes of their own, the ranks of c10dd also run without Gloo's
// context: its thread would compete with c10dd's for the cores.
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "client/client.h"
#include "collectives/process_group.h"
#include "tests/bench/all_reduce_peers.h"
#include "tests/bench/interval.h"
#include "tests/bench/scenarios.h"
#include "tests/bench/servers.h"
#include "tests/unit/temporary_directory.h"

namespace c10dd::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::array<std::size_t, 6> kSizes = {64 << 10, 256 << 10, 1 << 20,
                                               4 << 20,  16 << 20,  64 << 20};

std::string name_of_size(std::size_t bytes) {
  return bytes < (1 << 20) ? std::to_string(bytes >> 10) + " KiB"
                           : std::to_string(bytes >> 20) + " MiB";
}

/// What the processes of a round call.
enum class Calls : std::uint8_t { both, only_c10dd };

/// The groups of one rank.
class Groups {
 public:
  Groups(const Address& daemon, unsigned rank, unsigned size, const std::string& folder,
         Calls calls)
      : client_(Client::connect("c10dd://" + daemon.host + ":" + std::to_string(daemon.port) +
                                "/bench")),
        group_(ProcessGroup::open(client_, World{.rank = rank, .size = size},
                                  {.backend = "gloo", .hostname = "127.0.0.1"})) {
    if (calls == Calls::only_c10dd) return;
    const auto context =
        std::make_shared<gloo::rendezvous::Context>(static_cast<int>(rank), static_cast<int>(size));
    gloo::rendezvous::FileStore store(folder);
    gloo::transport::tcp::attr attributes;
    attributes.hostname = "127.0.0.1";
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    context->connectFullMesh(store, device);
    bare_ = context;
  }

  std::chrono::nanoseconds call_c10dd(std::vector<float>& values) {
    const Clock::time_point start = Clock::now();
    group_->all_reduce(tensor_of(values));
    return Clock::now() - start;
  }

  bool has_bare() const { return bare_ != nullptr; }

  std::chrono::nanoseconds call_bare(std::vector<float>& values) {
    const Clock::time_point start = Clock::now();
    gloo::AllreduceOptions options(bare_);
    options.setOutput(values.data(), values.size());
    options.setReduceFunction(
        static_cast<void (*)(void*, const void*, const void*, std::size_t)>(&gloo::sum<float>));
    gloo::allreduce(options);
    return Clock::now() - start;
  }

  /// Returns rank 0's number on all ranks.
  std::uint64_t agree(std::uint64_t number) {
    auto word = static_cast<std::int64_t>(number);
    group_->broadcast(tensor_of(&word, 1), 0);
    return static_cast<std::uint64_t>(word);
  }

 private:
  std::shared_ptr<Client> client_;
  std::shared_ptr<ProcessGroup> group_;
  std::shared_ptr<gloo::Context> bare_;
};

/// Measures one size for about `seconds`, and writes the nanoseconds of each turn to `out`, c10dd's
/// and Gloo's (0 without Gloo's context), unless it is null.
void measure(Groups& rank, std::size_t bytes, double seconds, std::FILE* out) {
  std::vector<float> values(bytes / sizeof(float), 0.0F);
  const auto turn = [&](std::chrono::nanoseconds& ours, std::chrono::nanoseconds& theirs) {
    ours = rank.call_c10dd(values);
    if (rank.has_bare()) theirs = rank.call_bare(values) + rank.call_bare(values);
    ours += rank.call_c10dd(values);
  };
  constexpr int kWarmUps = 3;
  std::chrono::nanoseconds ours{0};
  std::chrono::nanoseconds theirs{0};
  for (int i = 0; i < kWarmUps; ++i) turn(ours, theirs);
  const double one = std::chrono::duration<double>(ours + theirs).count();
  const std::uint64_t turns = rank.agree(static_cast<std::uint64_t>(seconds / one) + 5);
  for (std::uint64_t i = 0; i < turns; ++i) {
    turn(ours, theirs);
    if (out == nullptr) continue;
    std::fprintf(out, "%lld %lld\n", static_cast<long long>(ours.count()),
                 static_cast<long long>(theirs.count()));
  }
  if (out != nullptr) std::fprintf(out, "0 0\n");
}

[[noreturn]] void run_rank(const Address& daemon, unsigned rank, unsigned size,
                           const std::string& folder, double seconds, Calls calls, int output) {
  int code = 0;
  try {
    Groups groups(daemon, rank, size, folder, calls);
    std::FILE* const out = rank == 0 ? ::fdopen(output, "w") : nullptr;
    for (const std::size_t bytes : kSizes) measure(groups, bytes, seconds, out);
    if (out != nullptr) std::fclose(out);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "c10dd-bench: rank %u: %s\n", rank, error.what());
    code = 1;
  }
  ::_exit(code);
}

/// The turns of one size in one round.
struct Turns {
  Histogram ours;
  Histogram theirs;
  double our_seconds = 0;
  double their_seconds = 0;
  std::vector<double> ratios;
};

/// Runs the ranks of one round, and returns the turns of each size.
std::vector<Turns> run_round(const Address& daemon, unsigned size, double seconds, Calls calls) {
  const TemporaryDirectory folder;
  int pipe[2];
  if (::pipe(pipe) != 0) throw std::runtime_error("all-reduce: pipe failed");
  std::vector<pid_t> ranks;
  for (unsigned rank = 0; rank < size; ++rank) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::close(pipe[0]);
      run_rank(daemon, rank, size, folder.path(), seconds, calls, pipe[1]);
    }
    ranks.push_back(pid);
  }
  ::close(pipe[1]);
  std::vector<Turns> found(1);
  std::FILE* const in = ::fdopen(pipe[0], "r");
  long long ours = 0;
  long long theirs = 0;
  while (std::fscanf(in, "%lld %lld", &ours, &theirs) == 2) {
    if (ours == 0) {
      found.emplace_back();
      continue;
    }
    Turns& turns = found.back();
    for (int i = 0; i < 2; ++i) turns.ours.add(ours / 2), turns.theirs.add(theirs / 2);
    turns.our_seconds += static_cast<double>(ours) * 1e-9;
    turns.their_seconds += static_cast<double>(theirs) * 1e-9;
    turns.ratios.push_back(static_cast<double>(ours) / static_cast<double>(theirs));
  }
  std::fclose(in);
  bool good = true;
  for (const pid_t pid : ranks) {
    int status = 0;
    good = pid > 0 && ::waitpid(pid, &status, 0) == pid && status == 0 && good;
  }
  if (!good || found.size() != kSizes.size() + 1) {
    throw std::runtime_error("all-reduce: a rank has failed");
  }
  found.pop_back();
  return found;
}

}  // namespace

ScenarioResult run_all_reduce(const Options& options) {
  const unsigned size = options.members.value_or(2);
  const DaemonServer daemon("memory:", "os");
  ScenarioResult result;
  result.name = "all-reduce";
  result.counted = "calls";
  result.round_seconds = options.seconds;
  result.parameters = {{"ranks", size}, {"awake", options.awake}};
  std::vector<std::vector<double>> ratios(kSizes.size());
  for (const std::size_t bytes : kSizes) {
    result.series.push_back({name_of_size(bytes) + ", c10dd", "backend gloo", {}});
    result.series.push_back({name_of_size(bytes) + ", gloo", "the library alone", {}});
  }
  const std::size_t alone = result.series.size();  // index of the first series of c10dd alone
  if (!options.against.empty()) {
    for (const std::size_t bytes : kSizes) {
      result.series.push_back(
          {name_of_size(bytes) + ", c10dd alone", "backend gloo, no other context", {}});
    }
  }
  AllReducePeers peers(options, size, {kSizes.begin(), kSizes.end()}, alone, result);
  for (unsigned round = 0; round < options.rounds; ++round) {
    const std::vector<Turns> found =
        run_round(daemon.address(), size, options.seconds, Calls::both);
    for (std::size_t i = 0; i < kSizes.size(); ++i) {
      const Turns& turns = found[i];
      result.series[2 * i].rounds.push_back(sample_of(turns.ours, turns.our_seconds));
      result.series[2 * i + 1].rounds.push_back(sample_of(turns.theirs, turns.their_seconds));
      ratios[i].insert(ratios[i].end(), turns.ratios.begin(), turns.ratios.end());
    }
    if (options.against.empty()) continue;
    const auto own = run_round(daemon.address(), size, options.seconds, Calls::only_c10dd);
    for (std::size_t i = 0; i < kSizes.size(); ++i) {
      result.series[alone + i].rounds.push_back(sample_of(own[i].ours, own[i].our_seconds));
    }
    peers.run_round(result);
  }
  for (std::size_t i = 0; i < kSizes.size(); ++i) {
    const Interval interval = median_interval(ratios[i]);
    const std::string name = name_of_size(kSizes[i]) + ", c10dd to gloo, each turn";
    result.facts.push_back({name, "x, median", {interval.median}, 4});
    result.facts.push_back({name, "x, half-width of the 95 % interval", {interval.half_width}, 4});
  }
  peers.add_ratios(result);
  return result;
}

}  // namespace c10dd::bench
