// SPDX-License-Identifier: Apache-2.0
// Serves the jobs of one event loop: takes requests to their Job, holds answers until they are
// durable, hands rows to the engine in batches, loads jobs and gives them up, keeps job time.
// Pure: sockets, threads and the engine belong to the Shell around it, time comes from the loop.
// All calls are made on the loop's thread, but for those that say so. A connection talks to the
// host of its own loop only: the host posts what is for a job of another host there, and the
// answers come back through a RemoteSink. The turn is in job_host.cc, sessions are in
// job_host_sessions.cc, loads in job_host_load.cc.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "daemon/core/host/commit_pace.h"
#include "daemon/core/host/growth_gate.h"
#include "daemon/core/host/job_slot.h"
#include "daemon/core/host/job_time.h"
#include "store/commit_batch.h"

namespace c10dd::core {

class DirectoryHost;

/// `unavailable`, to be tried again soon.
Failure unavailable(std::string detail);

/// The engine that is open.
struct EngineState {
  std::uint64_t generation = 0;  ///< counts the openings; results of an older one are dropped
  std::uint64_t incarnation = 0;
  bool shared = false;       ///< reads must be confirmed
  bool is_volatile = false;  ///< no row outlives the process: none is handed over
};

/// A hello on its way to its job.
struct HelloRequest {
  std::shared_ptr<ReplySink> sink;
  std::uint32_t channel = 0;
  std::uint64_t sequence = 0;
  std::uint64_t connection = 0;  ///< Origin::connection
  Hello hello;
  std::function<void(JobRef)> on_open;  ///< before the answer, unless the hello is refused
};

/// Where a job lives.
struct JobLocation {
  JobHost* host = nullptr;
  JobNumber number = 0;
  std::uint64_t generation = 0;  ///< of the engine
  std::uint64_t lookup = 0;      ///< counts the answers of the directory that named this job
};

// ---- events of a host: for metrics and the log
// ---------------------------------------------------

struct JobServed {};
struct JobLoadFailed {
  std::string reason;
};
/// The job's metric series begin, or end.
struct JobCounted {
  bool counted = false;
};
struct BatchCommitted {
  std::size_t rows = 0;
  Duration took{0};
};
struct CommitFailed {
  store::Outcome outcome;
};
using HostEvent = std::variant<JobServed, JobLoadFailed, JobCounted, BatchCommitted, CommitFailed>;

class JobHost {
 public:
  /// What the host asks of the shell around it. Called on the loop's thread; an implementation
  /// calls the host back from the loop only, never from inside.
  class Shell {
   public:
    virtual ~Shell() = default;

    /// Hands a batch to the engine; JobHost::committed() has the result.
    virtual void commit(store::CommitBatch batch) = 0;
    /// Reads a job from the engine, see store::JobLoad; JobHost::loaded() gets the pieces.
    virtual void load(const JobRef& slot) = 0;
    /// The engine of this generation no longer works. The host has dropped its jobs.
    virtual void lose_engine(std::uint64_t generation, const std::string& why) = 0;
    virtual void report_damage(const std::string& what) = 0;

    /// A job made a step: for a request `from` a session, or without one.
    virtual void performed(const JobSlot& slot, const Effects& effects, const Origin* from,
                           std::uint64_t sequence) = 0;
    /// An answer may leave, if its session is still there.
    virtual void answered(const OutgoingReply& reply) = 0;
    /// slot: null for a batch.
    virtual void tell(const JobSlot* slot, const HostEvent& event) = 0;
  };

  struct Settings {
    Quotas quotas;
    std::string version;  ///< Welcome::daemon
  };

  /// All of them outlive the host.
  JobHost(HostLoop& loop, Shell& shell, DirectoryHost& directory, GrowthGate& growth,
          Settings settings);
  ~JobHost();

  HostLoop& loop() { return loop_; }  ///< from any thread

  // ---- for the connections of this loop

  /// Opens the session of a hello: finds its job, loads it if need be, takes the session over from
  /// an older connection, answers through the sink.
  void hello(HelloRequest request);

  /// Takes a request to its job. The answer comes through the session's sink.
  void submit(const JobRef& job, const Origin& from, const CallId& call, Request request);

  /// Notes a heartbeat of a connection that has sessions in the job.
  void heard(const JobRef& job, std::uint64_t connection);

  /// The connection of a session went. `sink` is compared only, never used.
  void detach(const JobRef& job, const SessionId& session, const ReplySink* sink);

  /// Counts bytes read for a job; true if its connections must rest until the next turn.
  bool charge(const JobRef& job, std::size_t bytes);
  bool spent(const JobRef& job) const;

  // ---- for the engine's side

  void engine_opened(const EngineState& engine) { engine_ = engine; }
  /// Drops all jobs. Nobody is told "failed": retries resolve what is unknown.
  void engine_lost(const std::string& why);
  void loaded(std::uint64_t generation, const JobRef& slot, store::JobPiece piece);
  void committed(std::uint64_t generation, store::CommitResult result);

  // ---- for the directory

  /// Loads a run, as a hello does, to see whether it has sessions.
  void probe(const JobLocation& location, const std::string& job, const std::string& run);
  /// The directory has struck the job out, since it had no sessions any more.
  void retire(JobNumber number);
  /// Nobody has used the job for a while: its metric series end until somebody does.
  void end_series(JobNumber number);
  /// How many sessions of the job are connected, or on their way. If none is, the next hello has to
  /// ask the directory.
  std::size_t close_job(JobNumber number);
  /// It was not removed after all.
  void keep_job(JobNumber number);

  // ---- the turn

  /// After ready sockets were drained: time moves, deadlines fire, a batch starts, answers leave.
  void end_turn();
  /// When to end a turn at the latest though nothing happens.
  std::optional<SteadyTime> next_wake() const;

  /// The daemon will end: the host takes no more hellos, and job time stands still, since a client
  /// that has lost its connection could not come back.
  void drain();
  bool draining() const { return draining_; }
  /// Held answers, and rows that are not durable; 0 when a drain may end.
  std::size_t unfinished() const;

  /// The jobs that it serves.
  std::vector<JobReport> reports() const;
  const std::unordered_map<JobNumber, JobRef>& jobs() const { return jobs_; }
  TimePoint job_time() const { return time_.now(loop_.now()); }

  /// Drops all references to connections, when the loop has ended.
  void forget();

 private:
  bool mine(const JobRef& job) const { return &job->owner == this; }
  TimePoint now() const { return job_time(); }

  // job_host.cc
  void perform(const JobRef& slot, Effects effects, const Origin* from = nullptr,
               std::uint64_t sequence = 0);
  void touch(const JobRef& slot);
  void fire_deadlines(TimePoint now);
  void end_turn_of(const JobRef& slot);
  void count_bytes(const JobRef& slot);
  std::size_t waiting() const;
  void start_batch();
  void finish_batch(const store::CommitResult& result);
  void release(const JobRef& slot);
  void watch_deadline(const JobRef& slot);

  // job_host_sessions.cc
  void arrive(const JobLocation& location, HelloRequest request);
  JobRef slot_of(const JobLocation& location, const std::string& job, const std::string& run);
  void attach(const JobRef& slot, const HelloRequest& request);
  void take_over(const JobRef& slot, const HelloRequest& request);
  void refuse_hello(const JobRef& slot, const HelloRequest& request);
  void refuse(const HelloRequest& request, Failure reason);
  void refuse(const JobSlot::Refused& to, Failure reason);
  void report_idle(const JobRef& slot);
  void drop(const JobRef& slot, const Failure& reason);

  // job_host_load.cc
  void load(const JobRef& slot);
  void restore_pieces();
  void restore_piece(const JobRef& slot);
  void finish_load(const JobRef& slot, const Result<void>& good);

  HostLoop& loop_;
  Shell& shell_;
  DirectoryHost& directory_;
  GrowthGate& growth_;
  const Settings settings_;
  std::optional<EngineState> engine_;  ///< none: it is being opened

  std::unordered_map<JobNumber, JobRef> jobs_;
  std::map<std::pair<std::string, std::string>, JobRef> by_name_;
  std::vector<JobRef> touched_;
  std::vector<JobRef> loading_;  ///< those that have pieces
  /// Jobs of equal deadlines in the order of their numbers, the same in every run.
  struct Earlier {
    bool operator()(const std::pair<TimePoint, JobRef>& a,
                    const std::pair<TimePoint, JobRef>& b) const {
      return std::pair(a.first, a.second->number) < std::pair(b.first, b.second->number);
    }
  };
  std::set<std::pair<TimePoint, JobRef>, Earlier> deadlines_;
  std::vector<std::shared_ptr<ReplySink>> to_flush_;

  struct InFlight {
    JobRef slot;
    Revision to = 0;
    std::size_t rows = 0;
  };
  std::uint64_t batch_ = 0;
  bool batch_in_flight_ = false;
  std::size_t to_answer_ = 0;  ///< requests that wait for the batch in flight
  CommitPace pace_;
  std::vector<InFlight> committing_;
  std::vector<JobRef> confirming_;

  JobTime time_;
  bool draining_ = false;
  TurnUse foreign_use_;  ///< of the jobs of other hosts, together
};

}  // namespace c10dd::core
