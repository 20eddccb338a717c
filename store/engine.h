// SPDX-License-Identifier: Apache-2.0
// The interface of engines, which keep the rows of all jobs across restarts.
// Contract, which tests/unit/store/engine_contract_test.cc checks for every engine:
//  - an engine applies a batch as a whole or not at all; after commit() has reported a batch
//    durable, the batch is durable;
//  - the batches of a job follow each other: an engine applies a batch if from_rev is the job's
//    current revision. Then to_rev becomes the job's current revision;
//  - a caller resolves an unknown outcome by repeating the commit. A repeated batch has the same
//    job, epoch, from_rev and to_rev. If it belongs to the newest commit() that changed the job, it
//    is reported durable, and is not applied again;
//  - a batch that neither follows nor repeats in this way is fenced: it is refused and has no
//    effect. A batch whose epoch is older than the job's newest claim is always fenced. A batch of
//    the job's owner that begins above the job's revision is lost. A batch of a job that was never
//    claimed is absent;
//  - an engine that daemons share (shared()) gives a job to one owner at a time: see claim(). The
//    directory, job 0, has no owner there: the engine applies a batch of job 0, whose epoch is 0,
//    if from_rev is the current revision, and otherwise fences it. No batch of job 0 is a repeat.
//    It keeps the newest changes of job 0: see changes();
//  - read() yields exactly the rows of all durable batches of the job, in byte order of their keys;
//  - after Outcome::unknown the engine must be opened again; until then all outcomes are unknown,
//    and all other calls fail with unavailable;
//  - an engine whose state others can erase (Redis) notices it: commit() and confirm() return
//    Outcome::lost or Outcome::absent, or the read fails with malformed.
// Threads: one caller at a time, except where a function says otherwise. Calls block. GroupCommit
// provides the calling thread and the batching for all engines.
// To add an engine: write store/<name>/engine.cc, add a line to engines.h and open_engine.cc, and
// run the contract test.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "protocol/epochs.h"
#include "protocol/error.h"
#include "protocol/format.h"
#include "protocol/rows.h"
#include "protocol/types.h"

namespace c10dd::store {

/// A job and the epoch under which the caller owns it.
struct Ownership {
  JobNumber job = 0;
  Epoch epoch = 0;
};

/// Consecutive changes of one job. The rows apply in order.
struct JobBatch {
  JobNumber job = 0;
  Epoch epoch = 0;
  Revision from_rev = 0;
  Revision to_rev = 0;  ///< at least from_rev; equal to from_rev only if there are no rows
  Rows rows;
  /// Of job 0 on a shared engine: if the caller does not own one of these jobs any more, the batch
  /// is fenced.
  std::vector<Ownership> guards = {};
  /// Of job 0 on a shared engine: if the batch is fenced because another daemon has changed the
  /// job, batches of other daemons are fenced for a second, until this daemon has changed the job.
  /// So a daemon far from the engine gets its turn beside near ones. An engine may ignore it.
  bool turn = false;
};

/// Result of a commit or a confirmation.
enum class Outcome : std::uint8_t {
  durable,  ///< done; the epoch of the call was still the newest epoch of the job
  fenced,   ///< not done: the job has a newer epoch, or its revision does not fit the batch
  unknown,  ///< may or may not be done: open the engine again and repeat the call
  /// Not done: the engine holds less of the job than it has reported durable, though the job has no
  /// newer owner. Open the engine again, and read the directory again.
  lost,
  /// Not done: the engine does not have the job. Either another daemon has taken it over and
  /// removed it, or the engine has lost it. Do as for `lost`; the next claim tells which of both is
  /// true.
  absent,
};

/// The ownership that a claim gives. Later batches of the job must have this epoch.
struct Claim {
  Epoch epoch = 0;
  Revision revision = 0;  ///< of the newest durable batch
  /// Where this epoch began, and on an engine that is shared the newest kEpochStarts, in order.
  std::vector<EpochStart> starts = {};
};

/// A row of job 0 that a claim of another job depends on. No key: the claim does not depend on one.
struct Precondition {
  Bytes key;
  Bytes value;
};

/// Names the owner of a job on a shared engine: after the state was erased, epochs begin again, so
/// the epoch alone would not do.
struct Owner {
  Epoch epoch = 0;
  std::uint64_t process = 0;  ///< OpenOptions::process of the daemon that has claimed the job

  bool operator==(const Owner&) const = default;
};

/// The owner of a job, and the number of its daemon's heartbeats so far; see store/fleet.h.
struct Holder {
  Owner owner;
  std::uint64_t beats = 0;

  bool operator==(const Holder&) const = default;
};

/// What a claim depends on. The engine checks all terms and claims the job in one step.
struct ClaimTerms {
  /// The incarnation of the directory that the caller has read. If it is not there, the state was
  /// erased or replaced: the engine must not begin jobs anew under numbers that were given out.
  Precondition state = {};
  /// The entry of the job in the directory. If it is not there, the job was retired.
  Precondition entry = {};
  /// An owner that the caller may depose, because it was silent for its lease. If the owner has
  /// sent a heartbeat since, or if it is not the owner any more, the claim fails.
  std::optional<Holder> over = {};
};

/// The claim fails: the directory no longer has the entry of the job.
struct Gone {};

/// The job is claimed, or another daemon holds it, or it is gone.
using ClaimReply = std::variant<Claim, Holder, Gone>;

/// Names the worst event that a change survives once the change was reported durable.
enum class Durability : std::uint8_t {
  fsync,  ///< survives power loss
  os,     ///< survives the death of the process, but not power loss
  none,   ///< survives a clean close only
};

struct HighWaterMark;

struct OpenOptions {
  Durability durability = Durability::fsync;
  /// If true, opens a state that has lost acknowledged changes, and goes on with what is left.
  bool accept_rollback = false;
  /// High-water mark of the previous engine that this process opened on the same state; null if
  /// there was none. Opening fails if the state is behind this mark.
  std::shared_ptr<const HighWaterMark> acknowledged = nullptr;
  /// Tells the owners of jobs on a shared engine apart, beside the epoch: after the state was
  /// erased, epochs begin again. 0: a random number that this process has drawn.
  std::uint64_t process = 0;
  std::string redis_ca = {};  ///< file with the CA of rediss: servers; empty: a CA of the system
  /// Receives the warnings of the engine's library, one line per call. May be called on any thread.
  std::function<void(std::string_view line)> warn = {};
};

/// How many changes of the directory a shared engine keeps, and how many bytes of them.
inline constexpr std::size_t kChangesKept = 4096;
inline constexpr std::size_t kChangeBytesKept = 4 * 1024 * 1024;

/// What has changed in a job since a revision.
struct Changes {
  Revision revision = 0;  ///< of the job now
  Rows rows = {};         ///< of all changes, in order
  /// How many rows the job has now, if the engine counts them.
  std::optional<std::uint64_t> row_count = {};
};

/// Reads the rows of one job in pieces. Between two pieces, the engine can serve other jobs.
class RowReader {
 public:
  virtual ~RowReader();

  /// Appends the next piece to `rows`: at most `most` rows, and at most about a megabyte. A piece
  /// may be empty even if more pieces follow. Returns false if this was the last piece. Fails if a
  /// row is damaged; never skips a row.
  virtual Result<bool> next(std::vector<Row>& rows, std::size_t most) = 0;
  /// Returns how many rows the job has, or nothing while the engine does not know it.
  virtual std::optional<std::uint64_t> rows() const { return std::nullopt; }

 protected:
  static constexpr std::size_t kPieceBytes = 1024 * 1024;
};

/// Keeps the rows of all jobs. See the contract at the head of this file.
class Engine {
 public:
  virtual ~Engine();

  /// Returns "memory", "rocksdb" or "redis", for metrics and /readyz.
  virtual std::string_view name() const = 0;

  /// Returns the actual durability, which may differ from OpenOptions::durability. With "fsync",
  /// changes survive power loss. With "os", they survive the death of processes. With "none", they
  /// survive at most a clean close.
  virtual std::string_view durability() const = 0;

  /// Returns whether other processes may own jobs. If so, replies to reads must wait for confirm().
  virtual bool shared() const = 0;

  /// Returns the jobs that have been claimed at least once.
  virtual Result<std::vector<JobNumber>> jobs() = 0;

  /// Makes the caller the owner of a job, which may be new. The claim is durable on return. A
  /// shared engine refuses a job of another process, unless `terms.over` names that owner, or that
  /// process has left the fleet. Fails with state_rolled_back if job 0 does not have `terms.state`.
  /// A claim that is refused or fails changes nothing. A claim of job 0 on a shared engine gives no
  /// ownership: it returns the current revision.
  virtual Result<ClaimReply> claim(JobNumber job, const ClaimTerms& terms) = 0;
  /// Claims a job without terms. Fails with not_owner if another daemon holds it.
  Result<Claim> claim(JobNumber job);

  /// Fails with not_owner if the epoch is fenced. Otherwise extends the claim's time limit, if any.
  virtual Result<void> renew(const Ownership& owner) = 0;

  /// Releases a job: any daemon may claim it at once. The epoch becomes fenced and is never reused.
  /// Fails with not_owner if the epoch is already fenced.
  virtual Result<void> release(const Ownership& owner) = 0;

  /// Gives a job to the daemon with this process number, which may then claim it as if it had owned
  /// it before; nobody else gets it meanwhile. Only for shared engines. Fails with not_owner if the
  /// epoch is fenced.
  virtual Result<void> hand_over(const Ownership& owner, std::uint64_t process) {
    return failure(Code::unsupported,
                   "job {} cannot be handed to process {}: engine {} is not shared", owner.job,
                   process, name());
  }

  /// Removes the rows of a job, and all else that the engine keeps for it, if job 0 has `mark`. The
  /// directory must no longer have the entry of the job, so that nobody can claim it. Does nothing
  /// if the mark is not there. Only for shared engines.
  virtual Result<void> forget(JobNumber job, const Precondition& mark) {
    return failure(Code::unsupported,
                   "job {} with mark {} cannot be removed: engine {} is not shared", job, mark.key,
                   name());
  }

  /// Identifies the server of a shared engine, for the comparison with Fleet::server(). A server
  /// that was started again is another one.
  virtual std::string_view server() const { return {}; }

  /// Returns a reader of the job's rows. If another owner changes the job during the read, the rows
  /// may be a mix of old and new: call renew() after the last piece to check that the caller still
  /// owns the job. The rows of job 0 on a shared engine, which has no owner, may be such a mix, and
  /// the reader does not count them: apply the changes() since a revision before the first piece.
  /// The engine must outlive the reader.
  virtual std::unique_ptr<RowReader> read(JobNumber job) = 0;

  /// Returns the changes of a job above revision `from`. Returns nothing if the engine does not
  /// have them all: a shared engine keeps those of job 0, the newest kChangesKept or
  /// kChangeBytesKept of them, and loses them when a daemon that knows no changes() commits; other
  /// engines keep none.
  virtual Result<std::optional<Changes>> changes(JobNumber job, Revision from);

  /// Calls each(row) for every row of the job, in the order of read().
  Result<void> load(JobNumber job, const std::function<void(Row)>& each);

  /// Commits batches; several of one job are allowed. Returns one outcome per batch, in order.
  virtual std::vector<Outcome> commit(std::span<const JobBatch> batches) = 0;

  /// Checks for each owner that the job still has the owner's epoch. Returns one outcome per owner,
  /// in order. Makes the checks during the call, so no outcome shows an earlier state.
  virtual std::vector<Outcome> confirm(std::span<const Ownership> owners) = 0;

  struct Outcomes {
    std::vector<Outcome> commits;   ///< of commit()
    std::vector<Outcome> confirms;  ///< of confirm()
    std::string why = {};           ///< why an outcome is unknown, if the engine can tell
  };
  /// Commits batches and confirms owners, together if the engine can.
  virtual Outcomes commit_and_confirm(std::span<const JobBatch> batches,
                                      std::span<const Ownership> owners);

  /// Starts to free the disk space of removed rows, and does not wait. Call relieve() while disk
  /// space is short. Returns false if the last attempt failed or had no room to begin.
  virtual bool relieve() { return true; }

  /// Returns how many bytes must stay free on the disk so that relieve() can free the space of
  /// removed rows. Thread-safe.
  virtual std::uint64_t room_to_tidy() const { return 0; }

  /// Returns the high-water mark of this engine, for OpenOptions::acknowledged of the next engine.
  /// Returns null if this engine has no high-water mark. Thread-safe.
  virtual std::shared_ptr<const HighWaterMark> acknowledged() const { return nullptr; }

  /// Returns the reason why the state may lack changes that clients have seen, as a text for the
  /// log. The text is empty if there is no such reason. If it is not empty, the caller must store a
  /// new incarnation number durably, and must then call renewed().
  virtual std::string_view rolled_back() const { return {}; }
  /// Records that the new incarnation number is durable.
  virtual void renewed() {}

  /// Returns a description of the damaged parts of the state, for the log and /readyz. The text is
  /// empty if no damage is known. Rows in the damaged parts fail to load.
  virtual std::string_view damage() const { return {}; }

  /// Writes a copy of the current state to `path`, an absolute path that does not exist yet. The
  /// copy appears at `path` complete or not at all. If an engine is opened on the copy, its
  /// rolled_back() says that the state comes from a checkpoint. May run on any thread, at the same
  /// time as other calls.
  virtual Result<void> checkpoint(const std::string& path) const {
    return failure(Code::unsupported, "checkpoint {}: engine {} has no files to copy", path,
                   name());
  }
};

/// Returns a number that this process has drawn, which is OpenOptions::process by default.
std::uint64_t this_process();

/// Returns the URL of an engine for logs and errors, with user and password replaced by ***.
std::string without_password(std::string_view url);

/// Opens an engine: memory: | rocksdb:/path | redis://[[user]:password@]host[:port][/prefix].
/// Blocks. The text of a failure says what to do. Among the failures are
///  - unavailable: another try may help. If another process holds the state directory of RocksDB,
///    the text has the pid of that process;
///  - state_rolled_back: acknowledged changes are missing from the state;
///  - malformed: the state is damaged;
///  - version_unsupported: this daemon does not know the format of the state.
Result<std::unique_ptr<Engine>> open_engine(std::string_view url, const OpenOptions& options = {});

}  // namespace c10dd::store
