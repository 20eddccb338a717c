// SPDX-License-Identifier: Apache-2.0
// Scenario barrier. Barriers alternate: in one all members arrive at once, measured from the first
// arrival to the last release; in the other the last member is held back until all other arrivals
// are durable, measured from its arrival to the last release.
#include <chrono>

#include "tests/bench/line.h"
#include "tests/bench/native_frames.h"
#include "tests/bench/scenarios.h"
#include "tests/bench/servers.h"

namespace c10dd::bench {
namespace {

using Clock = std::chrono::steady_clock;

/// Member r is on connection r % connections, in a session of its own.
class Members {
 public:
  Members(const Address& daemon, unsigned connections, unsigned members)
      : members_(members), group_("bench-" + std::to_string(random_number())) {
    for (unsigned i = 0; i < connections; ++i) {
      lines_.push_back(std::make_unique<Line>(daemon.host, daemon.port));
      lines_.back()->send(native::kMagic);
    }
    each_member([](unsigned rank) {
      Hello hello = new_session();
      hello.rank = rank;
      return Request(std::move(hello));
    });
    receive_all();
  }

  void leave() {
    each_member([](unsigned) { return Request(Goodbye{}); });
    receive_all();
  }

  /// From the first arrival to the last release.
  Clock::duration meet() {
    const std::vector<Bytes> arrivals = arrivals_of(0, members_);
    const Clock::time_point start = Clock::now();
    send(arrivals);
    receive_all();
    ++meetings_;
    return Clock::now() - start;
  }

  /// From the arrival of the last member, later than all others, to the last release.
  Clock::duration meet_with_latecomer() {
    send(arrivals_of(0, members_ - 1));
    settle();
    const std::vector<Bytes> arrival = arrivals_of(members_ - 1, members_);
    const Clock::time_point start = Clock::now();
    send(arrival);
    receive_all();
    ++meetings_;
    return Clock::now() - start;
  }

 private:
  void append(std::vector<Bytes>& out, unsigned rank, const Request& request) const {
    native::RequestHeader header;
    header.channel = rank / static_cast<unsigned>(lines_.size()) + 1;
    header.sequence = header.acked_below = sequence_;
    native::encode_request(out[rank % lines_.size()], header, request);
  }

  template <class F>
  void each_member(F&& request_of) {
    std::vector<Bytes> out(lines_.size());
    for (unsigned rank = 0; rank < members_; ++rank) append(out, rank, request_of(rank));
    ++sequence_;
    send(out);
  }

  std::vector<Bytes> arrivals_of(unsigned from, unsigned to) {
    std::vector<Bytes> out(lines_.size());
    Barrier barrier;
    barrier.group = group_;
    barrier.sequence = meetings_;
    barrier.world_size = members_;
    barrier.timeout = kPatience;
    for (unsigned rank = from; rank < to; ++rank) {
      barrier.rank = rank;
      append(out, rank, barrier);
    }
    ++sequence_;
    return out;
  }

  void send(const std::vector<Bytes>& out) {
    for (std::size_t i = 0; i < lines_.size(); ++i) lines_[i]->send(out[i]);
  }

  /// One reply for each member.
  void receive_all() {
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      const std::size_t here = (members_ - i + lines_.size() - 1) / lines_.size();
      receive(*lines_[i], here);
    }
  }

  /// Until everything sent so far has been taken and is durable: that is what count waits for.
  void settle() {
    std::vector<Bytes> out(lines_.size());
    for (unsigned rank = 0; rank < lines_.size(); ++rank) append(out, rank, Count{"bench"});
    ++sequence_;
    send(out);
    for (const auto& line : lines_) receive(*line, 1);
  }

  static void receive(Line& line, std::size_t replies) {
    line.receive(replies, [](std::string_view in) {
      const auto frame = cut_success(in);
      return frame ? frame->size : 0;
    });
  }

  unsigned members_;
  std::string group_;
  std::vector<std::unique_ptr<Line>> lines_;
  std::uint64_t sequence_ = 0;  // of all sessions alike; the hello is 0
  std::uint64_t meetings_ = 0;
};

}  // namespace

ScenarioResult run_barriers(const Options& options) {
  const std::string engine = options.engine.empty() ? "rocksdb:DIR" : options.engine;
  const unsigned connections = std::min(options.connections, options.members);
  std::unique_ptr<DaemonServer> daemon;
  if (!options.daemon) daemon = std::make_unique<DaemonServer>(engine, "fsync");
  const Address address = options.daemon ? *options.daemon : Address{"127.0.0.1", daemon->port()};

  ScenarioResult result;
  result.name = "barrier";
  result.counted = "barriers";
  result.round_seconds = options.seconds;
  result.parameters = {
      {"members", options.members}, {"connections", connections}, {"awake", options.awake}};
  const std::string how = options.daemon ? "was running" : "--engine " + engine;
  result.series = {{"all at once", "first arrival to last release, " + how, {}},
                   {"last one late", "last arrival to last release, " + how, {}}};
  for (unsigned round = 0; round < options.rounds; ++round) {
    Members members(address, connections, options.members);
    members.meet();  // warms up
    Histogram together;
    Histogram late;
    std::chrono::nanoseconds together_time{0};
    std::chrono::nanoseconds late_time{0};
    const auto until =
        Clock::now() + std::chrono::nanoseconds(static_cast<std::int64_t>(options.seconds * 1e9));
    do {
      const std::chrono::nanoseconds first = members.meet();
      const std::chrono::nanoseconds second = members.meet_with_latecomer();
      together.add(first.count());
      late.add(second.count());
      together_time += first;
      late_time += second;
    } while (Clock::now() < until);
    members.leave();
    const auto seconds = [](std::chrono::nanoseconds time) {
      return static_cast<double>(time.count()) * 1e-9;
    };
    result.series[0].rounds.push_back(sample_of(together, seconds(together_time)));
    result.series[1].rounds.push_back(sample_of(late, seconds(late_time)));
  }
  return result;
}

}  // namespace c10dd::bench
