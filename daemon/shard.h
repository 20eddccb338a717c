// SPDX-License-Identifier: Apache-2.0
// One event loop's jobs: takes requests to their Job, holds answers until they are durable, hands
// rows to the group commit, keeps job time. Decides nothing about semantics: that is the core's.
// Everything runs on the loop's thread.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "daemon/core/commit_gate.h"
#include "daemon/core/directory.h"
#include "daemon/core/job.h"
#include "daemon/metrics.h"
#include "store/group_commit.h"

namespace c10dd::daemon {

namespace asio = boost::asio;

/// Where the answers of a session go: its connection.
class AnswerSink {
 public:
  virtual ~AnswerSink() = default;
  virtual void deliver(std::uint32_t channel, const core::Reply& reply, const Stamp& stamp) = 0;
  /// The session on this channel is over; later requests on it are refused.
  virtual void end_session(std::uint32_t channel, const Failure& reason) = 0;
  /// The end of a turn in which something was delivered.
  virtual void flush() = 0;
};

/// A job that this shard serves, or is loading.
struct JobSlot {
  struct Attachment {
    std::shared_ptr<AnswerSink> sink;
    std::uint32_t channel = 0;
  };

  std::string name;
  JobNumber number = 0;
  Epoch epoch = 0;
  bool serving = false;
  bool dropped = false;  ///< the shard has given it up
  std::unique_ptr<core::Job> job;
  std::unique_ptr<core::CommitGate> gate;
  std::vector<Row> rows;     ///< not yet handed to the engine
  Revision handed_over = 0;  ///< revision up to which rows were handed over
  std::map<SessionId, Attachment> attached;
  std::vector<std::function<void()>> when_loaded;
  bool touched = false;               ///< in this turn
  std::optional<TimePoint> deadline;  ///< its place in Shard::deadlines_
};
using JobRef = std::shared_ptr<JobSlot>;

class Shard {
 public:
  Shard(asio::io_context& loop, Metrics& metrics, std::string engine_url,
        store::Durability durability);
  ~Shard();

  /// Takes the engine and reads its directory of jobs; blocking, before the loop turns.
  Result<void> adopt(std::unique_ptr<store::Engine> engine);

  /// Opens the session of a hello: loads its job if need be, takes the session over from an older
  /// connection, answers through the sink. on_open gets the job, unless it was refused.
  void hello(std::shared_ptr<AnswerSink> sink, std::uint32_t channel, std::uint64_t sequence,
             Hello hello, std::function<void(JobRef)> on_open);

  /// Takes a request to its job. The answer comes through the session's sink.
  void submit(const JobRef& job, const core::Origin& from, const core::CallId& call,
              const Request& request);

  /// The connection of a session went.
  void detach(const JobRef& job, const SessionId& session, const AnswerSink* sink);

  /// After ready sockets were drained: time moves, deadlines fire, a commit starts, answers leave.
  void end_turn();

  /// Empty when requests are served, else why not.
  std::string not_ready() const;
  std::string_view engine_name() const { return engine_name_; }
  std::string_view durability() const { return durability_name_; }

  /// Blocked and held answers; 0 when a drain may end.
  std::size_t unfinished() const;
  /// Brings the gauges of metrics up to date.
  void publish();

 private:
  TimePoint now() const;
  JobRef slot_of(const Hello& hello, Failure& refused);
  void load(const JobRef& slot, std::vector<Row> directory_rows, Revision directory_from);
  void loaded(const JobRef& slot, Result<store::Claim> claim, std::vector<Row> rows);
  void attach(const JobRef& slot, std::shared_ptr<AnswerSink> sink, std::uint32_t channel,
              std::uint64_t sequence, const Hello& hello, std::function<void(JobRef)> on_open);
  void refuse(const std::shared_ptr<AnswerSink>& sink, std::uint32_t channel,
              std::uint64_t sequence, Failure reason);
  void perform(const JobRef& slot, core::Effects effects);
  void touch(const JobRef& slot);
  void start_round();
  void finish_round(store::RoundResult result);
  void release(const JobRef& slot);
  void drop(const JobRef& slot, const Failure& reason);
  void lose_engine(const std::string& why);
  void reopen_later();
  void watch_deadline(const JobRef& slot);
  void arm_timer();

  asio::io_context& loop_;
  Metrics& metrics_;
  std::string engine_url_;
  store::Durability durability_;
  std::string engine_name_;
  std::string durability_name_;
  bool shared_ = false;
  bool volatile_ = false;  ///< nothing outlives the process: answers need not wait
  std::string lost_;       ///< why the engine is not open; empty when it is
  std::unique_ptr<store::GroupCommit> commit_;
  std::unique_ptr<core::Directory> directory_;
  std::uint64_t generation_ = 0;  ///< of the engine; answers of an older one are dropped

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
  std::vector<InFlight> committing_;
  std::vector<JobRef> confirming_;

  TimePoint job_time_;
  std::chrono::steady_clock::time_point turn_ended_;
  asio::steady_timer timer_;
  asio::steady_timer reopen_timer_;
  std::chrono::milliseconds reopen_delay_{0};
};

}  // namespace c10dd::daemon
