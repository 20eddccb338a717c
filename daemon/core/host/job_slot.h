// SPDX-License-Identifier: Apache-2.0
// Holds a host's data about one job. Only the thread of the host's loop may use the data. But other
// threads may read the constant members, and may keep a JobRef to pass it back to a host.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "daemon/core/host/host_loop.h"
#include "daemon/core/host/reply_sink.h"
#include "daemon/core/job/job_stats.h"
#include "daemon/core/reports/job_view.h"
#include "daemon/core/torch/plain_runs.h"
#include "store/job_load.h"

namespace c10dd::core {

class CommitGate;
class Job;
class JobHost;

/// Counts what a job has used in one turn of its loop: the number of requests, and the bytes of
/// requests and replies.
struct TurnUse {
  static constexpr std::size_t kRequests = 2'048;
  static constexpr std::size_t kBytes = 1024 * 1024;

  std::size_t requests = 0;
  std::size_t bytes = 0;

  void add(std::size_t size) {
    ++requests;
    bytes += size;
  }
  void answered(std::size_t size) { bytes += size; }
  /// Returns true if the job has used its share of the turn. Its connections then read nothing
  /// until the next turn, so that other jobs get their share.
  bool spent() const { return requests >= kRequests || bytes >= kBytes; }
};

/// A session on a channel of its connection. The connection passes its attachment to the host with
/// each request, so that the host need not look it up.
struct Attachment {
  const Origin from;
  const std::uint32_t channel;
  /// Only the thread of the job's host may use the sink. Null: the attachment has ended, and
  /// replies that are held for it are not sent.
  std::shared_ptr<ReplySink> sink;
  Charge credential = {};     ///< for its text, which the channel keeps
  std::uint64_t refusal = 0;  ///< if the hello was refused: its key in JobSlot::refused

  bool ended() const { return sink == nullptr; }
};

/// A job that goes to another daemon. Until that daemon owns it, the job takes no request, and its
/// clients wait.
struct JobMove {
  std::uint64_t process = 0;           ///< the daemon that gets the job
  std::vector<std::string> addresses;  ///< of that daemon
  std::function<void(Result<void>)> then;
  bool done = false;  ///< that daemon owns the job
};

/// A job that a host serves or is loading.
struct JobSlot {
  JobSlot(JobHost& of, std::string job_name, std::string run_name, JobNumber its);
  ~JobSlot();

  /// The memory of a job without sessions and keys.
  static constexpr std::size_t kBytes = 24 * 1024;

  /// Ends an attachment. Does not tell the job, or the connection.
  void end(const AttachmentRef& attachment, SteadyTime now);

  // These members are constant: any thread may read them.
  JobHost& owner;
  const std::string name;
  const std::string run;
  const JobNumber number;
  const bool is_volatile;  ///< none of its rows goes to the engine, see volatile_runs.h

  // The state of the slot. A slot that is neither serving nor dropped is loading or damaged.
  Epoch epoch = 0;       ///< epoch of the claim under which the job was loaded
  bool serving = false;  ///< the job is loaded and accepts sessions and requests
  bool dropped =
      false;  ///< the host no longer serves the job, and its JobTable has no reference to it
  std::unique_ptr<Job> job;
  std::unique_ptr<CommitGate> gate;

  // Rows for the engine.
  Rows rows;                 ///< not yet handed to the engine
  Revision handed_over = 0;  ///< revision up to which rows were handed to the engine

  Charge charge;  ///< for the job itself, to the principal of its first session

  // Sessions.
  std::unordered_map<SessionId, AttachmentRef, SessionIdHash> attached;
  std::size_t trainers = 0;  ///< those of `attached` that may do more than read
  /// The principal, or without authentication the address, that was the last to open a session in
  /// which it may do more than read, or for which the job is loaded; empty: this daemon.
  std::string opened_by;
  SteadyTime quiet_since;  ///< when the last of `trainers` left, at first when the slot was made
  /// A refused hello whose reply is held by the commit gate, because the refusal shows the job's
  /// state.
  struct Refused {
    AttachmentRef to;
    std::uint64_t sequence = 0;
  };
  std::map<std::uint64_t, Refused> refused;  ///< key: Attachment::refusal
  std::uint64_t refusals = 0;                ///< number of refused hellos so far

  // Loading.
  /// Waits until the load has ended or failed, or a move has ended.
  struct LoadWaiter {
    /// Called once: with null at that time, or earlier, at `until`, with a failure that says how
    /// far the load is.
    std::function<void(const Failure* instead)> then;
    std::optional<SteadyTime> until;  ///< empty: it waits as long as it takes
  };
  std::vector<LoadWaiter> when_loaded;
  std::uint64_t told_to_retry = 0;     ///< how many hellos of this load were told how far it is
  std::deque<store::JobPiece> pieces;  ///< read, not yet restored
  SteadyTime load_began;
  std::uint64_t rows_restored = 0;
  std::uint64_t bytes_restored = 0;
  std::optional<std::uint64_t> rows_stored = {};  ///< how many there are, if the engine knows it
  Result<void> restored;                          ///< whether all pieces so far could be restored
  std::string load_failure;                       ///< why the job is not served
  std::optional<Failure> refusal;                 ///< the reply to hellos, instead of load_failure
  store::Precondition entry;                      ///< JobLocation::entry
  std::optional<JobMove> moving;                  ///< nothing can change the job any more
  /// Set if rows are damaged: before this time, hellos are refused and the job is not loaded again.
  std::optional<SteadyTime> damaged_until;

  // The turn.
  bool touched = false;  ///< in JobTable::touched()
  bool changed = false;  ///< deadline and size may differ from the end of the last turn
  std::optional<TimePoint> deadline;  ///< its key in JobDeadlines
  TurnUse use;
  std::size_t bytes = 0;  ///< size of the job, as last reported to the growth gate

  // These members tell whether the job is in use.
  std::uint64_t lookup = 0;  ///< newest JobLocation::lookup that a hello or a probe came with
  bool in_use =
      false;          ///< false after an idle report to the directory, and after JobTable::close()
  bool idle = false;  ///< the metric series of the job have ended, see JobTable::end_series()
};
using JobRef = std::shared_ptr<JobSlot>;

/// Returns job, run and number for a text.
std::string described(const JobSlot& slot);

/// A host's report on a job that it serves, for metrics and status pages.
struct JobReport {
  std::string name;
  std::string run;
  JobNumber number = 0;
  Revision revision = 0;
  JobStats stats;
  /// How long no session has been connected since this daemon serves the job; zero while one is.
  Duration idle{0};
  Diagnosis diagnosis = {};
  Duration diagnosed{0};  ///< how long ago Diagnosis::since was; zero if it is running
  /// The newest diagnosis that the run was stuck, if it is not stuck any more; otherwise its kind
  /// is none.
  Diagnosis last_stuck = {};
  Duration last_ended{0};  ///< how long ago it ended
};

/// A host's report on a job that it is loading.
struct LoadReport {
  std::string name;
  std::string run;
  JobNumber number = 0;
  std::uint64_t rows = 0;                     ///< restored so far
  std::uint64_t bytes = 0;                    ///< of these rows
  std::optional<std::uint64_t> of_rows = {};  ///< how many there are, if the engine knows it
  Duration took{0};
};

/// Returns job, run and number for a text.
std::string described(const LoadReport& load);
/// Returns a text such as "1200000 of 4000000 rows (250000000 bytes) restored in
/// 3.1 s".
std::string progress_of(const LoadReport& load);

/// A report on one run of a job, with who waits for what.
struct RunReport {
  JobReport job;
  JobView view;
  /// Of a run of stock PyTorch clients that have named no run. JobHost does not know it.
  std::optional<PlainRuns::Report> plain = {};
};

}  // namespace c10dd::core
