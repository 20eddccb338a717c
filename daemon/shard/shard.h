// SPDX-License-Identifier: Apache-2.0
// One event loop's jobs: takes requests to their Job, holds answers until they are durable, hands
// rows to the group commit, keeps job time. Decides nothing about semantics: that is the core's.
// Everything runs on the loop's thread. A connection talks to the shard of its own loop only; what
// is for a job of another shard is posted there, and its answers come back through a RemoteSink.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "daemon/metrics/metrics.h"
#include "daemon/metrics/request_tally.h"
#include "daemon/shard/engine_host.h"
#include "daemon/shard/event_log.h"
#include "daemon/shard/growth_gate.h"
#include "daemon/shard/job_report.h"
#include "daemon/shard/job_slot.h"
#include "daemon/shard/job_time.h"
#include "daemon/shard/round_pace.h"

namespace c10dd::daemon {

/// A hello on its way to its job.
struct Greeting {
  std::shared_ptr<AnswerSink> sink;
  std::uint32_t channel = 0;
  std::uint64_t sequence = 0;
  std::uint64_t connection = 0;  ///< core::Origin::connection
  Hello hello;
  std::function<void(JobRef)> on_open;  ///< before the answer, unless the hello is refused
};

/// What all shards share; may be used from any thread.
struct House {
  Metrics& metrics;
  const Options& options;
  GrowthGate& growth;
};

class Shard {
 public:
  Shard(asio::io_context& loop, EngineHost& host, const House& house);
  ~Shard();

  asio::io_context& loop() { return loop_; }

  // ---- for the connections of this loop

  /// Opens the session of a hello: loads its job if need be, takes the session over from an older
  /// connection, answers through the sink.
  void hello(Greeting greeting);

  /// Takes a request to its job. The answer comes through the session's sink.
  void submit(const JobRef& job, const core::Origin& from, const core::CallId& call,
              Request request);

  /// A heartbeat of a connection that has sessions in the job.
  void heard(const JobRef& job, std::uint64_t connection);

  /// The connection of a session went.
  void detach(const JobRef& job, const SessionId& session, const AnswerSink* sink);

  /// Counts bytes read for a job; whether its connections must rest until the next turn.
  bool charge(const JobRef& job, std::size_t bytes);
  bool spent(const JobRef& job) const;
  bool draining() const { return draining_; }

  /// Counts the requests of this loop's connections.
  RequestTally& tally() { return tally_; }

  /// Counts turns, for connections that read once in each.
  std::uint64_t turn() const { return turn_; }
  /// Calls `wake` after this turn; those that had nothing of it come first.
  void rest(std::function<void()> wake, bool had_some);

  // ---- for the house

  void engine_opened(const OpenEngine& engine);
  /// Nobody is told "failed": the jobs stop being served, retries resolve what is unknown.
  void engine_lost(const std::string& why);

  /// Looks whether a run has sessions: loads it, as a hello does.
  void visit(const Place& place, const std::string& job, const std::string& run);

  /// The directory has struck the job out, since it had no sessions any more.
  void retire(JobNumber number);

  /// Nobody has used the job for a while: its metric series end until somebody does.
  void rest_job(JobNumber number);

  /// How many sessions of the job are connected, or on their way. If none is, the next hello goes
  /// by way of the directory.
  std::size_t close_job(JobNumber number);
  /// It was not removed after all.
  void keep_job(JobNumber number);

  /// After ready sockets were drained: time moves, deadlines fire, a commit starts, answers leave.
  void end_turn();

  /// The daemon will end: connections take no more requests, for the next daemon will get them, and
  /// time stands still, for who has lost its connection finds the door closed.
  void drain();
  /// Held answers, and rows that are not durable; 0 when a drain may end.
  std::size_t unfinished() const;
  /// The jobs that it serves.
  std::vector<JobReport> reports();

  /// Of the engine, when the loop has ended. Its threads post to the loop until it is closed.
  void let_go() { engine_.commit.reset(); }

  /// Of all jobs and connections, when the engine is closed.
  void forget();

 private:
  bool mine(const JobRef& job) const { return &job->owner == this; }
  void arrive(const Place& place, Greeting greeting);
  JobRef slot_of(const Place& place, const std::string& job, const std::string& run);
  void load(const JobRef& slot);
  void take_piece(const JobRef& slot, JobPiece piece);
  void restore_later(const JobRef& slot);
  void restore_piece(const JobRef& slot);
  void loaded(const JobRef& slot, const Result<void>& good);
  void attach(const JobRef& slot, const Greeting& greeting);
  void turn_away(const JobRef& slot, const Greeting& greeting);
  void refuse(const Greeting& greeting, Failure reason);
  void perform(const JobRef& slot, core::Effects effects);
  bool refuse_growth(const JobRef& slot, const core::Origin& from, const core::CallId& call,
                     const Request& request);
  void touch(const JobRef& slot);
  void count_bytes(const JobRef& slot);
  std::size_t waiting() const;
  void start_round();
  void finish_round(store::RoundResult result);
  void release(const JobRef& slot);
  void drop(const JobRef& slot, const Failure& reason);
  void watch_deadline(const JobRef& slot);
  void watch_vacancy(const JobRef& slot);
  void arm_timer();
  void wake_resting();

  asio::io_context& loop_;
  EngineHost& host_;
  Metrics& metrics_;
  RequestTally tally_;
  EventLog log_;
  GrowthGate& growth_;
  const core::Quotas quotas_;
  OpenEngine engine_;  ///< without a commit: there is none

  std::unordered_map<JobNumber, JobRef> jobs_;
  std::map<std::pair<std::string, std::string>, JobRef> by_name_;
  std::vector<JobRef> touched_;
  std::set<std::pair<TimePoint, JobRef>> deadlines_;
  std::vector<std::shared_ptr<AnswerSink>> to_flush_;

  struct InFlight {
    JobRef slot;
    Revision to = 0;
    std::size_t rows = 0;
  };
  std::uint64_t round_ = 0;
  bool round_in_flight_ = false;
  std::size_t to_answer_ = 0;  ///< requests that wait for the round in flight
  RoundPace pace_;
  std::vector<InFlight> committing_;
  std::vector<JobRef> confirming_;

  JobTime time_;
  asio::steady_timer timer_;
  bool timer_set_ = false;
  std::uint64_t turn_ = 1;
  bool draining_ = false;
  TurnUse foreign_use_;  ///< of the jobs of other shards, together
  std::vector<std::function<void()>> starved_;
  std::vector<std::function<void()>> served_;
};

}  // namespace c10dd::daemon
