// SPDX-License-Identifier: Apache-2.0
// Keeps this daemon in the fleet of a shared engine: has the link to the fleet, the watch of the
// server and the file of --mark, each with its thread, and the timers. core::FleetMember decides.
//
// Threads: every call is made on the first loop, except those marked "Blocks.", which are made
// while no loop runs.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/config/options.h"
#include "daemon/core/fleet/fleet_member.h"
#include "daemon/shard/loop.h"
#include "daemon/shard/mark_file.h"
#include "store/server_watch.h"

namespace c10dd::daemon {

class Shards;

class FleetHost final : private core::FleetMember::Shell {
 public:
  /// What it needs to know of the engine.
  struct Engine {
    std::function<Duration()> commit_age;              ///< see GroupCommit::oldest()
    std::function<std::string()> server;               ///< see store::Engine::server()
    std::function<void(const std::string& why)> lose;  ///< closes it and opens it again
    std::function<Bytes()> incarnation;                ///< value of Directory::precondition()
    /// Takes note that the server has other settings, see store::ServerState.
    std::function<void(const std::string& durability)> durability;
  };

  /// `look_interval`: how often it looks at the settings of the server, and asks the Sentinels.
  FleetHost(Loop& loop, const Options& options, std::vector<std::string> addresses,
            core::DirectoryHost& directory, Engine engine,
            Duration look_interval = std::chrono::seconds(5));
  ~FleetHost() override;

  /// Adds this daemon to the fleet. If a daemon that may be dead has one of its addresses, waits
  /// for its lease. Fails with invalid_argument if that daemon lives, if the fleet has another
  /// lease, or if the server may lose acknowledged changes and the options do not accept that; with
  /// state_rolled_back if the state has lost some; and as store::open_fleet() does. Blocks.
  Result<void> join();
  /// Returns which loss of the state the options accept, or an empty text. The directory must then
  /// get a new incarnation.
  const std::string& accepted_loss() const { return accepted_loss_; }
  /// Tells all daemons that the loss is accepted, and the new incarnation durable. Blocks.
  Result<void> accept_loss(const Bytes& incarnation);

  /// Begins to send heartbeats, the first one before it returns.
  void start(Shards& shards);
  /// Tells the fleet that the daemon hands its jobs over.
  void drain() { member_.drain(); }
  /// Takes this daemon out of the fleet: others may claim its jobs at once. Blocks.
  void leave();

  /// Notes that the engine was opened or closed; see core::FleetMember.
  void engine_opened() { member_.engine_opened(); }
  void engine_lost(const std::string& suspicion);
  bool may_open() const { return member_.may_open(); }
  const std::string& rolled_back() const { return member_.rolled_back(); }

  const core::FleetNews& news() const { return member_.news(); }
  const std::string& link_failure() const { return member_.failure(); }
  std::string not_ready() const;

 private:
  using Heard = core::FleetMember::Heard;

  void turn_all(std::function<void()> then) override;
  void ask(bool beats, const store::DaemonFacts& self, std::function<void(Heard)> then) override;
  void remove(std::uint64_t process, std::uint64_t beats) override;
  void report_rollback(const std::string& what) override;
  Duration commit_age() const override { return engine_.commit_age(); }
  Bytes incarnation() const override { return engine_.incarnation(); }
  void lose_engine(const std::string& why) override { engine_.lose(why); }
  void tell(const core::FleetNews& news) override;
  void report(const core::FleetEvent& event) override;

  Result<void> check_state();
  Result<void> check_server();
  Result<core::FleetView> wait_for_room();
  void arm_timer();
  void look_later();
  void looked(const Result<store::ServerState>& state);

  Loop& loop_;
  const Options& options_;
  core::DirectoryHost& directory_;
  const Engine engine_;
  const Duration look_interval_;
  core::FleetMember member_;
  MarkFile mark_;
  std::string accepted_loss_;
  Shards* shards_ = nullptr;
  boost::asio::steady_timer timer_;
  boost::asio::steady_timer look_timer_;
  store::ServerState server_;                  ///< as the newest look has shown it
  std::unique_ptr<store::ServerWatch> watch_;  ///< used on look_thread_, and while no loop runs
  /// How long the server may be silent. Seconds while join() runs, because no lease can end yet;
  /// then a part of the lease: a reply that is late must leave time for another try.
  Duration patience_ = std::chrono::seconds(2);
  core::FleetLink link_;  ///< used on thread_, and while no loop runs
  boost::asio::thread_pool look_thread_{1};
  boost::asio::thread_pool thread_{1};  ///< the last member, so destroyed first
};

}  // namespace c10dd::daemon
