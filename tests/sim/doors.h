// SPDX-License-Identifier: Apache-2.0
// Simulates connections of stock trainers to the daemons of a fleet. Each connection comes to some
// daemon. The daemon asks the product's JobLaunches which daemon owns the job, and binds the
// connection itself or passes it on to the owner. The oracle: a daemon binds a connection only
// while the shared state says that it owns the job, so no launch has connections in two runs; and
// when all is calm, all daemons name the same owner, no other daemon still has connections, and
// their books agree.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/core/host/job_launches.h"
#include "tests/sim/daemon.h"

namespace c10dd::sim {

class Doors {
 public:
  static constexpr std::string_view kJob = "doors";

  using Fleet = std::vector<std::shared_ptr<Daemon>>;

  /// `fleet` are the daemons now, by place. `seed` is the only randomness of the connections.
  Doors(World& world, std::uint64_t seed, Disk& disk, const Fleet& fleet)
      : world_(world), random_(seed), disk_(disk), fleet_(fleet) {}

  /// Lets connections come from now on.
  void begin();
  /// No more come. Some seconds later all daemons can be asked.
  void stop() { stopped_ = true; }
  /// Asks all daemons who the owner is, again and again.
  void ask_all();
  /// Returns what is not as it must be when all is calm; an empty text if nothing is.
  std::string unsettled() const;
  /// Ends all connections.
  void end_all();
  /// Returns what a daemon holds after end_all(), although no connection needs it; an empty text if
  /// nothing is held.
  std::string held() const;

 private:
  using Connection = core::JobLaunches::Connection;
  /// A daemon with its launches.
  struct Door {
    std::shared_ptr<Daemon> daemon;
    std::shared_ptr<core::JobLaunches> launches;
    std::set<Connection> open = {};  ///< bound here
  };
  using DoorRef = std::shared_ptr<Door>;

  DoorRef door_of(const std::shared_ptr<Daemon>& daemon);
  void come(const std::shared_ptr<Daemon>& daemon, bool passed_on);
  void pass_on(const std::string& address);
  void request(const DoorRef& door);
  void bind(const DoorRef& door);
  void set_key(const DoorRef& door, Connection connection);
  void leave(const DoorRef& door, Connection connection);
  bool owns(const Daemon& daemon) const;
  void post(const DoorRef& door, std::function<void()> then) {
    if (!door->daemon->dead()) door->daemon->first_shard().post(std::move(then));
  }
  void violated(const std::string& what) { world_.violated("doors", what); }

  World& world_;
  Random random_;
  Disk& disk_;
  const Fleet& fleet_;
  std::map<std::uint64_t, DoorRef> doors_;         ///< by the number of their daemon
  std::map<std::uint64_t, std::string> answered_;  ///< the owner, by the number of who was asked
  Connection newest_ = 0;
  bool stopped_ = false;
};

}  // namespace c10dd::sim
