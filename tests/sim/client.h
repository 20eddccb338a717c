// SPDX-License-Identifier: Apache-2.0
// A client process: the product's client core, driven as client/connection.cc drives it, with a
// workload that asks for something new when an answer came.
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
  };

  Client(World& world, const Swarm& swarm, Network& network, Records& records, DriftingClock clock,
         Identity identity, std::shared_ptr<Team> team, unsigned calls);

  void start();
  void on_bytes(const LinkRef& link, std::string bytes) override;
  void on_closed(const LinkRef& link) override;
  void kill() override;

  /// One call beside the workload, answered into the records.
  void ask(Request request);
  /// As the SDK's close: gives up what is pending, then says goodbye.
  void leave();
  /// Nothing new from the workload.
  void stop_asking() { calls_left_ = 0; }
  /// Nobody answers its dials for a while, and its link goes silent.
  void partition(Duration how_long);
  void resume() {
    partitioned_until_ = world_.now();
    Process::resume();
  }

  bool idle() const { return pending_.empty(); }
  const Identity& identity() const { return identity_; }
  const client::Core& core() const { return core_; }

 private:
  void end_turn() override;
  void ask_workload();
  void flush();
  void note_names();
  void settle();
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
};

}  // namespace c10dd::sim
