// SPDX-License-Identifier: Apache-2.0
// A daemon process: the product's hosts of jobs and of the directory, on one or more event loops,
// over the simulated disk and network. The product's code decides; this shell simulates its
// threads, its access to the disk, and the end of the process. Its loops are in shard.h.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "daemon/core/directory/directory_host.h"
#include "daemon/core/directory/directory_rows.h"
#include "daemon/core/fleet/fleet_member.h"
#include "daemon/core/host/drain.h"
#include "daemon/core/host/growth_gate.h"
#include "tests/sim/disk.h"
#include "tests/sim/network.h"
#include "tests/sim/shard.h"

namespace c10dd::sim {

class Daemon final : public std::enable_shared_from_this<Daemon>,
                     private core::DirectoryHost::Shell,
                     private core::EndpointPorts,
                     private core::FleetMember::Shell {
 public:
  /// `place`: of its address in the fleet; no other daemon that lives has it.
  Daemon(World& world, const Swarm& swarm, Disk& disk, Records& records, DriftingClock clock,
         std::uint64_t number, unsigned place);

  /// Opens the engine, then accepts connections. `accepts`: as with --accept-rollback.
  void start(bool accepts = false);
  void accept(const LinkRef& link);

  bool dead() const { return dead_; }
  std::uint64_t number() const { return number_; }
  unsigned place() const { return place_; }
  /// Returns what the shared state has lost, as this daemon knows it, or an empty text.
  std::string rolled_back() const { return member_ ? member_->rolled_back() : ""; }
  bool serves() const { return directory_->is_open(); }
  void pause(Duration how_long);
  void resume();
  /// Kills the process, as by SIGKILL: the kernel resets the sockets. If the machine loses power,
  /// it does not.
  void kill() { die(false); }
  void die(bool power_lost);

  /// Drains, as after SIGTERM: takes only heartbeats, and ends when all held replies have been
  /// sent, or after `timeout`. Calls `closed` first, `ended` last.
  void drain(Duration timeout, std::function<void()> closed, std::function<void()> ended);

  /// Makes room on the disk short, or gone, until that time.
  void disk_short_for(Duration how_long);

  /// Describes what is blocked, held or on its way to the engine; empty if nothing is.
  std::string unsettled() const;
  /// Returns the bytes of all served jobs, and their sum as the growth gate counts it.
  std::pair<std::uint64_t, std::uint64_t> bytes() const;
  /// Returns what is charged for what the jobs hold, and what the ledger says of it.
  std::pair<std::uint64_t, std::uint64_t> charged() const;
  /// Returns the job of this name; null if it is not served.
  const core::Job* job(const std::string& name) const;
  core::Quotas quotas() const;

  /// Makes a run that lives in memory. Calls `then` with its number, on the first loop.
  void open_volatile(const std::string& job, const std::string& run,
                     std::function<void(JobNumber)> then);
  /// Lease and release an endpoint. `then` is called on the first loop.
  void lease_endpoint(const std::string& job, const LeaseEndpoint& request,
                      std::function<void(Result<EndpointLease>)> then);
  void release_endpoint(const std::string& job, const std::string& name,
                        std::function<void(Result<void>)> then);
  bool listens(std::uint16_t port) const { return ports_.contains(port); }
  /// Lets an endpoint get its first connection, or lose its last one.
  void endpoint_in_use(const std::string& job, const std::string& name, bool in_use);

  // For relays.h, in a fleet.
  Shard& first_shard() const { return first(); }
  bool is_alone() const { return directory_->fleet()->addresses().empty(); }
  bool engine_works() const { return directory_->is_open() && member_->not_ready().empty(); }
  /// Returns the number of the job's run without a name; nothing if this daemon knows none.
  std::optional<JobNumber> number_of(const std::string& job) const;

  /// Returns the shard that serves the job with this number.
  const std::shared_ptr<Shard>& shard_of(JobNumber number) const {
    return shards_[(number - 1) % shards_.size()];
  }

  // ---- for its shards

  core::GrowthGate& growth() { return growth_; }
  core::DirectoryHost& directory() { return *directory_; }
  World& world() { return world_; }
  const Swarm& swarm() const { return swarm_; }
  Records& records() { return records_; }
  bool draining() const { return draining_; }
  /// Its link and its engine lose the server that a promoted one replaces, one after the other.
  void reach_promoted();
  /// Records a heartbeat of the session, on any loop.
  void heard_of(const SessionId& session);
  /// Takes the report, from any loop, that the engine of this generation no longer works.
  void report_lost(std::uint64_t generation, const std::string& why, bool rolled_back = false);

 private:
  core::JobHost& host_of(JobNumber number) override { return shard_of(number)->host(); }
  void write(core::DirectoryHost::DirectoryBatch change,
             std::function<void(core::DirectoryHost::Written)> then) override;
  void read(Revision known, std::function<void(std::optional<core::DirectoryNews>)> then) override;
  void read_on(const std::shared_ptr<core::DirectoryReading>& reading,
               std::function<void(std::optional<core::DirectoryNews>)> then);
  void directory_damaged(const Failure& why) override { report_lost(generation_, why.detail); }
  void forget(std::vector<JobNumber> jobs, std::function<void(bool)> then) override;
  void struck_out(const core::Directory::NamedRun& entry, std::string_view how) override;
  std::string not_ready() const override { return "the engine is being reopened"; }

  Result<std::uint16_t> open(const core::Endpoint& endpoint,
                             const core::Endpoints& leased) override;
  void close(const core::Endpoint& endpoint, std::string_view how) override;
  void restore(const std::vector<core::Endpoint>& leased) override;
  bool in_use(const core::Endpoint& endpoint) const override {
    return used_.contains({endpoint.job, endpoint.name});
  }
  const std::string& host() const override { return host_; }

  // daemon_fleet.cc
  void join_fleet(bool accepts);
  void beat_later();
  void turn_all(std::function<void()> then) override;
  void ask(bool beats, const store::DaemonFacts& self,
           std::function<void(core::FleetMember::Heard)> then) override;
  void remove(std::uint64_t process, std::uint64_t beats) override;
  void report_rollback(const std::string& what) override;
  Duration commit_age() const override;
  Bytes incarnation() const override { return precondition_.value; }
  void lose_engine(const std::string& why) override { report_lost(generation_, why); }
  void tell(const core::FleetNews& news) override;
  void report(const core::FleetEvent& event) override;
  void leave_fleet();
  void note_trouble(Duration how_long) {
    TimePoint& until = records_.trouble[number_];
    until = std::max(until, world_.now() + how_long);
  }

  Shard& first() const { return *shards_.front(); }
  bool adopt(const core::AcceptedLoss& loss = {});
  void lose(const std::string& why, bool rolled_back);
  void reopen_later();
  void end_when_finished(TimePoint deadline, std::function<void()> ended);
  void check_drained();
  void forgive_absence();

  World& world_;
  const Swarm& swarm_;
  Disk& disk_;
  Records& records_;
  const std::uint64_t number_;
  const unsigned place_;
  core::GrowthGate growth_;
  std::vector<std::shared_ptr<Shard>> shards_;
  std::unique_ptr<core::DirectoryHost> directory_;
  const std::string host_ = "127.0.0.1";
  std::set<std::uint16_t> ports_;         ///< of endpoints, on which it listens
  std::set<core::Endpoints::Name> used_;  ///< endpoints that have connections
  std::uint64_t opened_ = 0;              ///< how many ports it has chosen

  std::shared_ptr<store::Engine> engine_;
  core::FleetLink link_;                       ///< not used without a fleet
  std::unique_ptr<core::FleetMember> member_;  ///< null without a fleet
  core::AcceptedLoss accepted_;                ///< at the start
  Row precondition_;
  std::shared_ptr<DiskQueue> queue_;
  std::shared_ptr<bool> intact_;
  std::uint64_t generation_ = 0;
  std::size_t to_let_go_ = 0;  ///< shards that have not yet dropped the lost engine
  bool draining_ = false;
  core::Drain drain_;
  bool dead_ = false;
};

}  // namespace c10dd::sim
