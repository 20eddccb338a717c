// SPDX-License-Identifier: Apache-2.0
// Simulates one seed: a world with a daemon and clients, faults while they are busy, then a calm
// phase until every call has a reply, an audit of the state that is left, and the oracles.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/client.h"
#include "tests/sim/daemon.h"
#include "tests/sim/disk.h"
#include "tests/sim/leases.h"
#include "tests/sim/network.h"
#include "tests/sim/proxied_clients.h"
#include "tests/sim/records.h"
#include "tests/sim/relays.h"
#include "tests/sim/strangers.h"
#include "tests/sim/swarm.h"
#include "tests/sim/thieves.h"
#include "tests/sim/trainers.h"
#include "tests/sim/visits.h"
#include "tests/sim/workload.h"
#include "tests/sim/world.h"

namespace c10dd::sim {

struct Report {
  std::uint64_t seed = 0;
  std::uint64_t hash = 0;
  std::uint64_t events = 0;
  std::uint64_t calls = 0;
  std::uint64_t undecided = 0;  ///< keys whose linearizability was not decided
  Duration simulated{0};
  std::array<std::uint64_t, kFaults> faults{};
  std::optional<Violation> violation;
  std::vector<std::string> last_events;  ///< only with a violation
};

class Simulation {
 public:
  explicit Simulation(std::uint64_t seed);
  Report run();
  void print_all() { world_.trace.print_all(); }
  const std::vector<Op>& calls() const { return records_.ops; }

 private:
  // simulation.cc
  void start_clients();
  void start_access();
  void start_thieves();
  void start_intruder();
  void mind_refused();
  void start_proxied();
  std::shared_ptr<Client> add_client(const std::string& job, unsigned calls);
  void be_busy();
  void calm_down();
  void check_books();
  void fall_quiet();
  void audit();
  void check_relays();
  void check_strangers();
  void check_inside();
  Report finish();
  bool run_until(Duration patience, const std::function<bool()>& done);
  bool settled() const;
  std::string unsettled() const;

  // simulation_faults.cc
  void inject();
  void inject(Fault fault);
  void replace(const std::shared_ptr<Client>& client);
  void relaunch(const std::string& job);
  void start_launch(const std::string& job, unsigned calls);
  void start_daemon(unsigned place = 0, bool accepts = false);
  void start_again(unsigned place);
  void drain(const std::shared_ptr<Daemon>& daemon);
  /// Returns a daemon of the fleet; the only one if there is no fleet.
  const std::shared_ptr<Daemon>& some_daemon() { return world_.random.pick(fleet_); }
  void end_faults();

  // simulation_audit.cc
  void check_bounds();
  void check_restored(const std::string& job);
  void check_rows(const std::string& job);
  void check_left_over();
  void check_rollback();

  // simulation_loss.cc
  void lose_state();
  void take_state_back(const store::SharedMemory& copy);
  void expect_all(const char* what, const std::function<bool(const Daemon&)>& holds);

  /// Returns the job of this name, from the daemon that serves it; null if none does.
  const core::Job* job(const std::string& name) const;

  DriftingClock some_clock();
  const std::uint64_t seed_;
  World world_;
  Swarm swarm_;
  Records records_;
  Disk disk_;
  Network network_;
  std::vector<std::shared_ptr<Daemon>> fleet_;      ///< those that listen, by place
  std::vector<std::shared_ptr<Daemon>> deposed_;    ///< alive, but without their jobs
  std::vector<std::shared_ptr<Daemon>> graveyard_;  ///< events may still refer to them
  std::unique_ptr<Visits> visits_;                  ///< null if the seed has none
  std::unique_ptr<Trainers> trainers_;              ///< null if the seed has none
  std::unique_ptr<Leases> leases_;                  ///< null if the seed has none
  std::unique_ptr<Relays> relays_;                  ///< null if the seed has none
  std::unique_ptr<Strangers> strangers_;
  std::shared_ptr<Thieves> thieves_;
  std::vector<std::shared_ptr<ProxiedClient>> proxied_;  ///< empty if the seed has none
  std::shared_ptr<Client> intruder_;                     ///< null if nobody is asked
  std::vector<std::shared_ptr<Client>> clients_;
  std::vector<std::shared_ptr<Client>> old_clients_;
  std::vector<std::shared_ptr<Client>> doomed_;  ///< old clients whose job starts again
  std::map<std::string, std::shared_ptr<Team>> teams_;
  std::map<std::string, std::shared_ptr<Team>> relaunching_;  ///< the next launch, by job
  std::uint64_t daemons_ = 0;
  std::uint32_t processes_ = 0;
  unsigned calls_each_ = 0;
  bool faults_over_ = false;
  Report report_;
};

}  // namespace c10dd::sim
