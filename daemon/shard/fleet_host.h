// SPDX-License-Identifier: Apache-2.0
// Keeps this daemon in the fleet of a shared engine: has the link to the fleet with its thread, and
// the timer. core::FleetMember decides.
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
#include "daemon/core/host/fleet_member.h"
#include "daemon/shard/loop.h"

namespace c10dd::daemon {

class Shards;

class FleetHost final : private core::FleetMember::Shell {
 public:
  /// What it needs to know of the engine.
  struct Engine {
    std::function<Duration()> commit_age;              ///< see GroupCommit::oldest()
    std::function<std::string()> server;               ///< see store::Engine::server()
    std::function<void(const std::string& why)> lose;  ///< closes it and opens it again
    std::function<Bytes()> incarnation;                ///< value of Directory::witness()
  };

  FleetHost(Loop& loop, const Options& options, std::vector<std::string> addresses,
            core::DirectoryHost& directory, Engine engine);
  ~FleetHost() override;

  /// Adds this daemon to the fleet. If a daemon that may be dead has one of its addresses, waits
  /// for its lease. Fails with invalid_argument if that daemon lives, or if the fleet has another
  /// lease; and as store::open_fleet() does. Blocks.
  Result<void> join();

  /// Begins to send heartbeats.
  void start(Shards& shards);
  /// Tells the fleet that the daemon hands its jobs over.
  void drain() { member_.drain(); }
  /// Takes this daemon out of the fleet: others may claim its jobs at once. Blocks.
  void leave();

  const core::FleetNews& news() const { return member_.news(); }
  std::string not_ready() const { return member_.not_ready(); }

 private:
  using Heard = core::FleetMember::Heard;

  void turn_all(std::function<void()> then) override;
  void ask(bool beats, const store::DaemonFacts& self, std::function<void(Heard)> then) override;
  void remove(std::uint64_t process, std::uint64_t beats) override;
  Duration commit_age() const override { return engine_.commit_age(); }
  Bytes incarnation() const override { return engine_.incarnation(); }
  void lose_engine(const std::string& why) override { engine_.lose(why); }
  void tell(const core::FleetNews& news) override;
  void report(const core::FleetEvent& event) override;

  Result<core::FleetView> wait_for_room();
  Heard ask_link(bool beats, const store::DaemonFacts& self, const std::string& server);
  void arm_timer();

  Loop& loop_;
  const std::string url_;
  core::DirectoryHost& directory_;
  const Engine engine_;
  core::FleetMember member_;
  Shards* shards_ = nullptr;
  boost::asio::steady_timer timer_;
  std::unique_ptr<store::Fleet> link_;  ///< used on thread_, and while no loop runs
  boost::asio::thread_pool thread_{1};  ///< the last member, so destroyed first
};

}  // namespace c10dd::daemon
