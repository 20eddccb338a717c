// SPDX-License-Identifier: Apache-2.0
// Simulates connections of stock trainers to the daemons of a fleet. Each connection comes to some
// daemon. The daemon asks the product's JobLaunches which daemon owns the job, and binds the
// connection itself or passes it on to the owner. The oracle fails if a daemon binds a connection
// while the shared state says that another one owns the job, because then a launch has connections
// in two runs. When all is calm, all daemons must name the same owner, no other daemon may still
// have connections, and their books must agree.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/core/fleet/job_launches.h"
#include "tests/sim/daemon.h"

namespace c10dd::sim {

class Relays {
 public:
  static constexpr std::string_view kJob = "relays";

  using Fleet = std::vector<std::shared_ptr<Daemon>>;

  /// `fleet` are the daemons now, by place. `seed` is the only randomness of the connections.
  Relays(World& world, std::uint64_t seed, Disk& disk, const Fleet& fleet)
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
  struct Relay {
    std::shared_ptr<Daemon> daemon;
    std::shared_ptr<core::JobLaunches> launches;
    std::set<Connection> open = {};  ///< bound here
  };
  using RelayRef = std::shared_ptr<Relay>;

  RelayRef relay_of(const std::shared_ptr<Daemon>& daemon);
  void come(const std::shared_ptr<Daemon>& daemon, bool passed_on);
  void pass_on(const std::string& address);
  void request(const RelayRef& relay);
  void bind(const RelayRef& relay);
  void set_key(const RelayRef& relay, Connection connection);
  void leave(const RelayRef& relay, Connection connection);
  bool owned_by_another(const Daemon& daemon) const;
  void post(const RelayRef& relay, std::function<void()> then) {
    if (!relay->daemon->dead()) relay->daemon->first_shard().post(std::move(then));
  }
  void violated(const std::string& what) { world_.violated("relays", what); }

  World& world_;
  Random random_;
  Disk& disk_;
  const Fleet& fleet_;
  std::map<std::uint64_t, RelayRef> relays_;       ///< by the number of their daemon
  std::map<std::uint64_t, std::string> answered_;  ///< the owner, by the number of who was asked
  Connection newest_ = 0;
  bool stopped_ = false;
};

}  // namespace c10dd::sim
