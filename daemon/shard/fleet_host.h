// SPDX-License-Identifier: Apache-2.0
// Keeps this daemon in the fleet of a shared engine: sends its heartbeats, and hands the readings
// to core::DirectoryHost and to the shards. A heartbeat is sent only if every loop turns, the
// engine is open and commits, and the link of the fleet leads to the same server as that of the
// engine: a daemon that cannot serve must lose its jobs.
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
#include "daemon/core/host/directory_host.h"
#include "daemon/shard/loop.h"
#include "store/fleet.h"

namespace c10dd::daemon {

class Shards;

class FleetHost {
 public:
  /// What it needs to know of the engine.
  struct Engine {
    std::function<bool()> open;
    std::function<Duration()> commit_age;              ///< see GroupCommit::oldest()
    std::function<std::string()> server;               ///< see store::Engine::server()
    std::function<void(const std::string& why)> lose;  ///< the state is not the one that was read
    std::function<Bytes()> incarnation;                ///< value of Directory::witness()
  };

  FleetHost(Loop& loop, const Options& options, std::vector<std::string> addresses,
            core::DirectoryHost& directory, Engine engine);
  ~FleetHost();

  /// Adds this daemon to the fleet. If a daemon that may be dead has one of its addresses, waits
  /// for its lease. Fails with invalid_argument if that daemon lives, or if the fleet has another
  /// lease; and as store::open_fleet() does. Blocks.
  Result<void> join();

  /// Begins to send heartbeats.
  void start(Shards& shards);
  /// Tells the fleet that the daemon hands its jobs over.
  void drain() { self_.draining = true; }
  /// Takes this daemon out of the fleet: others may claim its jobs at once. Blocks.
  void leave();

  /// Returns what the shards know of the fleet.
  const core::FleetNews& news() const { return news_; }
  /// Returns why this daemon serves no jobs now, or an empty text.
  std::string not_ready() const;

 private:
  /// The result of a heartbeat or a reading.
  using Heard = Result<store::FleetReading>;

  void tick();
  void send(bool beats);
  Heard ask(bool beats, const store::DaemonFacts& self, const std::string& server);
  void heard(core::SteadyTime sent, bool beat, const Heard& heard);
  void note_others();
  void forget_the_dead();

  Loop& loop_;
  const std::string url_;
  core::DirectoryHost& directory_;
  const Engine engine_;
  store::DaemonFacts self_;
  Shards* shards_ = nullptr;
  core::FleetNews news_;
  std::string failure_;                   ///< why the last heartbeat failed; empty if it did not
  bool asking_ = false;    ///< a heartbeat or a reading is under way: at most one at a time
  bool held_ = true;                      ///< whether the lease held at the last look
  std::map<std::uint64_t, bool> silent_;  ///< of the other daemons, as it was logged
  boost::asio::steady_timer timer_;
  std::unique_ptr<store::Fleet> link_;  ///< used on thread_, and while no loop runs
  boost::asio::thread_pool thread_{1};  ///< the last member, so destroyed first
};

}  // namespace c10dd::daemon
