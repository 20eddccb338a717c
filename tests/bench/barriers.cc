// SPDX-License-Identifier: Apache-2.0
// Scenario barrier. Barriers alternate: in one all members arrive at once, measured from the first
// arrival to the last release; in the other the last member is held back until all other arrivals
// are durable, measured from its arrival to the last release.
#include <chrono>

#include "tests/bench/crowd.h"
#include "tests/bench/native_frames.h"
#include "tests/bench/scenarios.h"
#include "tests/bench/servers.h"
#include "tests/bench/torch_barrier.h"

namespace c10dd::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned kBarrierMembers = 1000;

class Barriers {
 public:
  Barriers(const Address& daemon, unsigned connections, unsigned members)
      : members_(members),
        group_("bench-" + std::to_string(random_number())),
        crowd_(daemon, connections, members) {}

  /// From the first arrival to the last release.
  Clock::duration meet() {
    const std::vector<Bytes> arrivals = arrivals_of(0, members_);
    const Clock::time_point start = Clock::now();
    crowd_.send(arrivals);
    crowd_.receive_all();
    ++barriers_;
    return Clock::now() - start;
  }

  /// From the arrival of the last member, later than all others, to the last release.
  Clock::duration meet_with_latecomer() {
    crowd_.send(arrivals_of(0, members_ - 1));
    crowd_.settle();
    const std::vector<Bytes> arrival = arrivals_of(members_ - 1, members_);
    const Clock::time_point start = Clock::now();
    crowd_.send(arrival);
    crowd_.receive_all();
    ++barriers_;
    return Clock::now() - start;
  }

  void leave() { crowd_.leave(); }

 private:
  std::vector<Bytes> arrivals_of(unsigned from, unsigned to) {
    Barrier barrier;
    barrier.name = group_;
    barrier.sequence = barriers_;
    barrier.world_size = members_;
    barrier.timeout = kPatience;
    return crowd_.encode(from, to, [&](unsigned rank) {
      barrier.rank = rank;
      return barrier;
    });
  }

  unsigned members_;
  std::string group_;
  Crowd crowd_;
  std::uint64_t barriers_ = 0;
};

/// Takes a turn of torch's, if it is asked for and there.
void compare_with_torch(const Options& options, unsigned members, ScenarioResult& result) {
  const auto is_torch = [](const Peer& peer) { return peer.kind == Peer::Kind::torch; };
  if (std::none_of(options.against.begin(), options.against.end(), is_torch)) return;
  if (!result.skipped.empty()) return;
  const TorchBarriers torch = meet_in_torch(members, options.seconds);
  result.skipped = torch.skipped;
  if (!result.skipped.empty()) return;
  if (result.series.size() == 2) {
    result.series.push_back({"torch", "TCPStore: ADD and WAIT, first arrival to last release", {}});
    result.bars = result.series[0].name;
  }
  result.series[2].rounds.push_back(sample_of(torch.took, torch.total));
}

}  // namespace

ScenarioResult run_barriers(const Options& options) {
  const std::string engine = options.engine.empty() ? "rocksdb:DIR" : options.engine;
  const unsigned members = options.members.value_or(kBarrierMembers);
  const unsigned connections = std::min(options.connections.value_or(1), members);
  std::unique_ptr<DaemonServer> daemon;
  if (!options.daemon) daemon = std::make_unique<DaemonServer>(engine, "fsync");
  const Address address = options.daemon ? *options.daemon : daemon->address();

  ScenarioResult result;
  result.name = "barrier";
  result.counted = "barriers";
  result.round_seconds = options.seconds;
  result.parameters = {
      {"members", members}, {"connections", connections}, {"awake", options.awake}};
  const std::string how = options.daemon ? "was running" : "--engine " + engine;
  result.series = {{"all at once", "first arrival to last release, " + how, {}},
                   {"last one late", "last arrival to last release, " + how, {}}};
  for (unsigned round = 0; round < options.rounds; ++round) {
    Barriers barriers(address, connections, members);
    barriers.meet();  // warms up
    Histogram together;
    Histogram late;
    std::chrono::nanoseconds together_time{0};
    std::chrono::nanoseconds late_time{0};
    const auto until =
        Clock::now() + std::chrono::nanoseconds(static_cast<std::int64_t>(options.seconds * 1e9));
    do {
      const std::chrono::nanoseconds first = barriers.meet();
      const std::chrono::nanoseconds second = barriers.meet_with_latecomer();
      together.add(first.count());
      late.add(second.count());
      together_time += first;
      late_time += second;
    } while (Clock::now() < until);
    barriers.leave();
    const auto seconds = [](std::chrono::nanoseconds time) {
      return static_cast<double>(time.count()) * 1e-9;
    };
    result.series[0].rounds.push_back(sample_of(together, seconds(together_time)));
    result.series[1].rounds.push_back(sample_of(late, seconds(late_time)));
    compare_with_torch(options, members, result);
  }
  return result;
}

}  // namespace c10dd::bench
