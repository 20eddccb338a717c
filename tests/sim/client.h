// SPDX-License-Identifier: Apache-2.0
// A client process: the product's client core, driven as client/internal/connection.cc drives it,
// with a workload that sends new requests when replies have come.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "client/core/core.h"
#include "tests/sim/network.h"
#include "tests/sim/process.h"
#include "tests/sim/records.h"
#include "tests/sim/workload.h"

namespace c10dd::sim {

class Client final : public Process, public Endpoint {
 public:
  struct Identity {
    std::uint32_t number = 0;  ///< of the process
    std::string job;
    std::string run = {};
    std::int64_t rank = -1;     ///< that its hello tells
    std::string token_of = {};  ///< the job whose token it shows; empty: `job`
  };

  Client(World& world, const Swarm& swarm, Network& network, Records& records, DriftingClock clock,
         Identity identity, std::shared_ptr<Team> team, unsigned calls);

  void start();
  void on_bytes(const LinkRef& link, std::string bytes) override;
  void on_closed(const LinkRef& link) override;
  void kill() override;
  /// Loses its connection, and cannot connect again for a while.
  void cut_off(Duration how_long);
  /// Ends with its machine: no FIN or RST reaches the daemon.
  void vanish();

  /// Makes one call beside the workload. Returns its number; the reply goes into the records.
  std::uint64_t ask(Request request);
  /// Closes as the SDK does: cancels pending calls, then says goodbye.
  void leave();
  /// Stops new requests from the workload.
  void stop_asking() { calls_left_ = 0; }
  void stop_following();
  /// Partitions the client for a while: its dials get no reply, and its link goes silent.
  void partition(Duration how_long);
  void resume() {
    partitioned_until_ = world_.now();
    Process::resume();
  }

  /// Returns true if no call is under way but the watch of the group, which never ends, or the
  /// process has ended.
  bool idle() const { return dead() || busy_calls() == 0; }
  /// Returns what does not add up in the books of a living client; empty if all does.
  std::string audit() const { return dead() ? "" : core_.audit(true); }
  /// Returns whether the process has ended because its first connect was refused.
  bool was_refused() const { return dead() && core_.over().has_value(); }
  bool follows() const { return pending_.contains(follow_); }
  const Identity& identity() const { return identity_; }
  const client::Core& core() const { return core_; }

 private:
  void end_turn() override;
  void ask_workload();
  void ask_follow();
  std::size_t busy_calls() const { return pending_.size() - pending_.count(follow_); }
  void flush();
  void note_names();
  void check_fence();
  void settle();
  void show_token();
  void dial();
  void call_again();

  const Swarm& swarm_;
  Network& network_;
  Records& records_;
  Identity identity_;
  std::shared_ptr<Team> team_;
  client::Core core_;
  Workload workload_;
  LinkRef link_;
  TimePoint partitioned_until_;
  unsigned calls_left_;
  TimePoint next_ask_;                            // local
  std::map<std::uint64_t, std::size_t> pending_;  // index in records_.ops, by call
  std::uint64_t sessions_lost_ = 0;
  TimePoint confirmed_;       // local: Core::last_confirmed() at the end of the last turn
  std::uint64_t follow_ = 0;  // number of the call that watches the group
  TimePoint next_follow_;     // local
  bool may_follow_ = true;
};

}  // namespace c10dd::sim
