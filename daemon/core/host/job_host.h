// SPDX-License-Identifier: Apache-2.0
// Serves the jobs of one event loop. JobHost takes the calls of connections, of the engine's side
// and of the directory, and runs the turn. Its parts do the work, each in a file of its own:
//
//   HostContext   what all parts share: the shell, the loop, the engine, the fleet, the time
//   JobTable      which jobs there are, and which of them are in use
//   JobDeadlines  which job has its deadline next
//   ReplySender   sends replies that need not wait any more
//   Commits       carries out the steps of jobs, and commits their rows in batches
//   JobLoader     loads jobs in pieces
//   Attachments   attaches sessions to jobs
//   JobMoves      hands jobs over to other daemons
//
// A part uses only parts above it in this list. To drop a job, which concerns most parts, it calls
// the host through JobDropper. Pure: sockets, threads and the engine belong to the shell around
// this class, and the time comes from the loop.
//
// Threads: a function must be called on the thread of the host's loop, unless it is marked
// "Thread-safe." A connection calls only the host of its own loop. If the job belongs to another
// host, the connection's host posts the call to the loop of that host; the replies come back
// through a RemoteSink.
//
// Turns: in each turn the loop first serves ready sockets, which pass requests to the host.
// Then end_turn() fires deadlines, starts a batch and sends the replies that need not wait any
// more.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "daemon/core/host/attachments.h"
#include "daemon/core/host/commits.h"
#include "daemon/core/host/host_context.h"
#include "daemon/core/host/job_deadlines.h"
#include "daemon/core/host/job_loader.h"
#include "daemon/core/host/job_moves.h"
#include "daemon/core/host/job_table.h"
#include "daemon/core/host/reply_sender.h"

namespace c10dd::core {

/// Passes a request to the host of its job, on the loop of that host.
void post_to_owner(const JobRef& job, const AttachmentRef& attachment, const CallId& call,
                   const Request& request);

class JobHost final : private JobDropper {
 public:
  using Shell = HostShell;
  using Settings = HostSettings;

  /// All four references must outlive the host.
  JobHost(HostLoop& loop, Shell& shell, JobDirectory& directory, GrowthGate& growth,
          Settings settings);

  HostLoop& loop() { return context_.loop; }                    ///< Thread-safe.
  const GrowthGate& growth() const { return context_.growth; }  ///< Thread-safe.

  // ---- for the connections of this loop

  /// Opens the session of a hello: finds its job, loads the job if needed, and takes the session
  /// over from its older connection, if there is one. The reply comes through the request's sink.
  void hello(HelloRequest request);

  /// Passes a request to its job. The reply comes through the attachment's sink. The request is
  /// ignored if the attachment has ended, because the job was dropped, or because the session has
  /// closed or has moved to a newer connection: in all cases the client repeats the request.
  /// Returns `answered` if the job belongs to another host, because only that host can tell.
  Submitted submit(const JobRef& job, const AttachmentRef& attachment, const CallId& call,
                   const Request& request) {
    if (&job->owner == this) return commits_.submit(job, attachment, call, request);
    post_to_owner(job, attachment, call, request);
    return Submitted::answered;
  }

  /// Passes a request for an endpoint of a job to the directory. Calls `then` with the reply on
  /// this loop. `arrived_ns` is as in CallId.
  void lease_endpoint(const std::string& job, const LeaseEndpoint& request, std::int64_t arrived_ns,
                      std::function<void(const Reply&)> then);

  /// Records a heartbeat of a connection that has sessions in the job.
  void heard(const JobRef& job, std::uint64_t connection);

  /// Records whether the host of the peer of a connection answers, see Sessions::answers(). Call it
  /// when that has changed.
  void answers(const JobRef& job, std::uint64_t connection, bool answers);

  /// Ends an attachment, because its connection has closed. Has no effect if it has ended before.
  void detach(const JobRef& job, const AttachmentRef& attachment);

  /// Counts a request of `bytes` bytes for a job, and returns spent(job).
  bool charge(const JobRef& job, std::size_t bytes);
  /// Returns true if the job's connections must not read more requests before the next turn. All
  /// jobs of other hosts are counted together, as one job.
  bool spent(const JobRef& job) const;

  // ---- for the engine's side

  /// Notes that an engine was opened. While no engine is open, hellos are refused.
  void engine_opened(const EngineState& engine) {
    loader_.engine_opened(engine.incarnation);
    context_.engine = engine;
  }
  /// Returns false if other daemons may take over the jobs of this one.
  bool lease_holds() const { return context_.lease_holds(); }
  /// Notes that a heartbeat of this daemon has reached the fleet.
  void heard_from_fleet(FleetNews news);
  /// Drops all jobs except volatile runs, and ends their sessions with the code `unavailable`.
  /// Discards the held replies, because the outcome of their commits is unknown. The clients
  /// reconnect and repeat the requests.
  void engine_lost(const std::string& why);
  /// Queues one piece of a job, which the engine has read. The host restores one piece per turn.
  /// Has no effect if the engine of this generation is no longer open.
  void loaded(std::uint64_t generation, const JobRef& slot, store::JobPiece piece) {
    loader_.loaded(generation, slot, std::move(piece));
  }
  /// Handles the result of the batch in flight. Has no effect if the engine of this generation is
  /// no longer open.
  void committed(std::uint64_t generation, const store::CommitResult& result) {
    commits_.committed(generation, result);
  }

  /// Handles the result of Shell::hand_over(). Has no effect if the engine of this generation is no
  /// longer open.
  void handed_over(std::uint64_t generation, const JobRef& slot, const Result<void>& done) {
    moves_.handed_over(generation, slot, done);
  }

  // ---- for the directory

  /// Serves a job: loads it, if needed, as a hello does. Calls `then` on this loop with the job, or
  /// with the failure that a hello would get.
  void serve(const JobLocation& location, const std::string& job, const std::string& run,
             std::function<void(Result<JobRef>)> then) {
    loader_.serve(location, job, run, std::move(then));
  }
  /// Loads a run, as a hello does, to find out whether the run has sessions. If the run has no
  /// session, the host reports the run as idle.
  void probe(const JobLocation& location, const std::string& job, const std::string& run) {
    loader_.probe(location, job, run);
  }
  /// Drops a job that the directory has retired or removed.
  void retire(JobNumber number);
  /// Gives a job to another daemon: when all its changes are durable and their replies have left,
  /// the engine makes that daemon the owner. Then the sessions end with not_owner and its
  /// addresses. Calls `move.then` on this loop. Fails with not_found if the host does not serve the
  /// job.
  void move(JobNumber number, JobMove move) { moves_.move(number, std::move(move)); }

  // ---- the turn

  /// Ends a turn, after its handlers have run: advances job time, fires deadlines, starts a
  /// batch, and sends replies.
  void end_turn();
  /// Returns the time by which end_turn() must be called again; empty if nothing has to be done.
  std::optional<SteadyTime> next_wake() const;

  /// Prepares the end of the daemon: from now on the host refuses hellos, and job time stands
  /// still. A client that has lost its connection cannot reconnect during the drain, so its session
  /// must not expire.
  void drain();
  bool draining() const { return context_.draining; }
  /// Returns all jobs, including those that are loading.
  JobTable& jobs() { return table_; }
  TimePoint job_time() const { return context_.now(); }

  /// Drops all references to jobs and connections.
  /// Called when the loop has ended.
  void forget();

 private:
  void find_job(HelloRequest request, bool looks);
  void arrive(const JobLocation& location, HelloRequest request);
  void give_up_jobs();
  void drop(const JobRef& slot, const Failure& reason) override;
  void lose_engine(const std::string& why, bool rolled_back) override;

  HostContext context_;
  JobTable table_;
  JobDeadlines deadlines_;
  ReplySender replies_;
  Commits commits_;
  JobLoader loader_;
  Attachments attachments_;
  JobMoves moves_;
  TurnUse foreign_use_;  ///< requests and bytes in this turn for jobs of other hosts
};

}  // namespace c10dd::core
