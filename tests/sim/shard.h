// SPDX-License-Identifier: Apache-2.0
// One event loop of a daemon with the product's host of its jobs. Hands the host's batches to the
// disk, and records what the jobs did. Calls that loops post to each other are late now and then.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "daemon/core/group/rows.h"
#include "daemon/core/host/job_host.h"
#include "tests/sim/connection.h"
#include "tests/sim/disk.h"
#include "tests/sim/network.h"
#include "tests/sim/process.h"

namespace c10dd::sim {

class Daemon;

class Shard final : public Process,
                    public Endpoint,
                    public core::HostLoop,
                    private core::JobHost::Shell {
 public:
  Shard(Daemon& daemon, DriftingClock clock, bool first);

  /// Starts the host, once there is a directory.
  void start(core::JobDirectory& directory);
  core::JobHost& host() { return *host_; }

  // ---- the loop; a call that a shard posts to itself is not late
  void post(std::function<void()> f) override;
  void dispatch(std::function<void()> f) override;
  core::SteadyTime now() const override;

  // ---- the network
  void accept(const LinkRef& link);
  void on_bytes(const LinkRef& link, std::string bytes) override;
  void on_closed(const LinkRef& link) override;
  void forget(std::uint64_t link) { connections_.erase(link); }

  // ---- the engine
  void engine_opened(const core::EngineState& engine, std::shared_ptr<DiskQueue> queue,
                     std::shared_ptr<bool> intact);
  void engine_lost(const std::string& why);

  void die(bool power_lost);
  std::string unsettled() const;

  /// Records a heartbeat on a connection of the session.
  void heard_of(const SessionId& session);
  void note_sign(const SessionId& session);
  /// Signs of life of a session since this host began to serve its job, in job time.
  struct Signs {
    std::optional<TimePoint> frame;
    std::optional<TimePoint> closed;  ///< when its connection closed
  };

 private:
  /// What is observed, for the records, of a job that this shard serves.
  struct Watched {
    TimePoint served_since;  ///< job time
    std::set<SessionId> attached;
    std::map<SessionId, Signs> signs;
    std::size_t rows = 0;                            ///< of steps since the last batch
    std::map<SessionId, Duration> time_left;         ///< of members, when the job was loaded
    std::map<std::string, core::GroupFacts> groups;  ///< as their newest rows have them
  };

  void end_turn() override;
  void commit(store::CommitBatch batch) override;
  void load(const core::JobRef& slot, std::shared_ptr<store::JobLoad> load) override;
  void hand_over(const core::JobRef& slot, std::uint64_t process) override;
  void lose_engine(std::uint64_t generation, const std::string& why, bool rolled_back) override;
  void report_damage(const std::string& what) override;
  void performed(const core::JobSlot& slot, const core::Effects& effects, const core::Origin* from,
                 std::uint64_t sequence) override;
  void released(const core::OutgoingReply& reply) override;
  void report(const core::JobSlot* slot, const core::HostEvent& event) override;

  void read_on(const core::JobRef& slot, const std::shared_ptr<store::JobLoad>& load);
  void read_piece(const core::JobRef& slot, const std::shared_ptr<store::JobLoad>& load);
  void note_step(const core::JobSlot& slot, const core::Effects& effects, const core::Origin* from,
                 std::uint64_t sequence);
  void note_owner(const core::JobSlot& slot);
  void note_ping(const core::OutgoingReply& reply);
  void note_takeover(const core::JobSlot& slot, std::uint64_t from);
  void note_losses(const core::JobSlot& slot, const Step& step);
  static void note_loaded_rows(Watched& loading, const std::vector<Row>& rows);
  void judge_time_left(const core::JobSlot& slot, const Step& step);
  void judge_return(const core::JobSlot& slot, const SessionId& session, Duration noted);
  void note_diagnoses(const core::JobSlot& slot, const core::Effects& effects);
  bool is_well(const Watched& watched, const std::string& host) const;
  void note_presence(const core::JobSlot& slot);
  void note_refusal(const core::Effects& effects, const SessionId& session);
  void all_gone(JobNumber job);
  void hurry();

  Daemon& daemon_;
  const bool first_;
  std::unique_ptr<core::JobHost> host_;
  std::map<std::uint64_t, std::shared_ptr<Connection>> connections_;
  std::deque<std::function<void()>> late_;  ///< posted calls that have not arrived
  std::shared_ptr<DiskQueue> queue_;
  std::shared_ptr<bool> intact_;
  std::uint64_t generation_ = 0;
  bool batch_in_flight_ = false;
  std::map<JobNumber, Watched> watched_;
  std::map<JobNumber, Watched> loading_;
};

}  // namespace c10dd::sim
