// SPDX-License-Identifier: Apache-2.0
// The interface of engines, which keep the rows of all jobs across restarts.
// Contract, which tests/unit/store/engine_contract_test.cc checks for every engine:
//  - a batch is applied as a whole or not at all, and is durable once commit() reports it durable;
//  - the batches of a job follow each other: from_rev is the revision that the engine has, to_rev
//    the one that it has afterwards. Committing the same (job, epoch, from, to) again succeeds for
//    every batch of the newest commit() that changed the job, so a caller resolves an unknown
//    outcome by repeating the commit. Any other batch is fenced;
//  - a batch whose epoch is older than the job's newest claim is fenced and has no effect;
//  - read() yields exactly the rows of all durable batches of the job, in byte order of their keys;
//  - after Outcome::unknown the engine does nothing more until it is opened again: all outcomes are
//    unknown, every other call fails with unavailable.
// Threads: one caller at a time, except where a function says otherwise. Calls block: GroupCommit
// has the thread and the batching for all engines.
// To add an engine: write store/<name>/engine.cc, add a line to engines.h and open_engine.cc, run
// the contract.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "protocol/error.h"
#include "protocol/format.h"
#include "protocol/types.h"

namespace c10dd::store {

/// Consecutive changes of one job. The rows apply in order.
struct JobBatch {
  JobNumber job = 0;
  Epoch epoch = 0;
  Revision from_rev = 0;
  Revision to_rev = 0;  ///< >= from_rev; equal only for a batch without rows
  std::vector<Row> rows;
};

/// Result of a commit or a confirmation.
enum class Outcome : std::uint8_t {
  durable,  ///< done, and the job was still owned under this epoch
  fenced,   ///< not done: another owner has claimed the job since
  unknown,  ///< may or may not be done: open the engine again and repeat the call
};

/// Ownership of a job, as claim() returns it: batches must have its epoch.
struct Claim {
  Epoch epoch = 0;
  Revision revision = 0;  ///< of the newest durable batch
};

/// A job and the epoch under which the caller owns it.
struct Ownership {
  JobNumber job = 0;
  Epoch epoch = 0;
};

/// What a change survives once it is reported durable.
enum class Durability : std::uint8_t {
  fsync,  ///< survives power loss
  os,     ///< survives the death of the process only
  none,   ///< survives a clean close only
};

struct HighWaterMark;

struct OpenOptions {
  Durability durability = Durability::fsync;
  /// Whether to open a state that has lost acknowledged changes with what is left of it, this time.
  bool accept_rollback = false;
  /// What an earlier engine of this process has acknowledged on the same state: opening fails if
  /// the state has less. Null: there was no such engine.
  std::shared_ptr<const HighWaterMark> acknowledged = nullptr;
  /// Gets the warnings of the engine's library, one line per call. Called on any thread.
  std::function<void(std::string_view line)> warn = {};
};

/// Reads the rows of one job in pieces. Between two pieces the engine may be used for other jobs.
class RowReader {
 public:
  virtual ~RowReader() = default;

  /// Appends the next piece to `rows`: at most `most` rows, or about a megabyte. A piece may be
  /// empty although others follow. Returns false if this was the last piece. Fails if a row is
  /// damaged, and never skips one.
  virtual Result<bool> next(std::vector<Row>& rows, std::size_t most) = 0;

 protected:
  static constexpr std::size_t kPieceBytes = 1024 * 1024;
};

/// Keeps the rows of all jobs. See the contract at the head of this file.
class Engine {
 public:
  virtual ~Engine() = default;

  /// Returns "memory", "rocksdb" or "redis", for metrics and /readyz.
  virtual std::string_view name() const = 0;

  /// Returns what "durable" really means in this engine, whatever was asked for: "fsync" survives
  /// power loss, "os" survives the death of processes, "none" survives at most a clean close.
  virtual std::string_view durability() const = 0;

  /// Returns whether other processes may own jobs of this engine, so that a read must be confirmed.
  virtual bool shared() const = 0;

  /// Returns the jobs that have been claimed at least once.
  virtual Result<std::vector<JobNumber>> jobs() = 0;

  /// Makes the caller the owner of a job, known or new. Durable when it returns.
  virtual Result<Claim> claim(JobNumber job) = 0;

  /// Checks a claim, and extends it where claims expire. Fails with not_owner if it is fenced.
  virtual Result<void> renew(const Ownership& owner) = 0;

  /// Releases a job, so that another owner need not wait. The epoch is fenced and never reused.
  /// Fails with not_owner if it is fenced already.
  virtual Result<void> release(const Ownership& owner) = 0;

  /// Returns a reader of the job's rows. The rows need not be of one moment if another owner
  /// changes the job meanwhile: call renew() after the last piece to verify that the job is still
  /// owned. The engine must outlive the reader.
  virtual std::unique_ptr<RowReader> read(JobNumber job) = 0;

  /// Calls each(row) for every row of the job, as read() has them.
  Result<void> load(JobNumber job, const std::function<void(Row)>& each);

  /// Commits batches; several of one job are allowed. Returns one outcome per batch, in order.
  virtual std::vector<Outcome> commit(std::span<const JobBatch> batches) = 0;

  /// Checks whether each job is still owned under its epoch, by evidence newer than this call.
  /// Returns one outcome per owner, in order.
  virtual std::vector<Outcome> confirm(std::span<const Ownership> owners) = 0;

  /// Begins to give the room of removed rows back to the disk, and does not wait for that. To be
  /// called while room is short. Returns false if the last attempt failed for want of room.
  virtual bool relieve() { return true; }

  /// Returns how many bytes must stay free on the disk; with less, removed rows give no room back.
  /// Thread-safe.
  virtual std::uint64_t room_to_tidy() const { return 0; }

  /// Returns what this engine has acknowledged, for OpenOptions::acknowledged of the next engine;
  /// null if a loss is noticed in another way. Thread-safe.
  virtual std::shared_ptr<const HighWaterMark> acknowledged() const { return nullptr; }

  /// Returns why the state may be older than clients have seen, for the log; empty if it is not.
  /// The caller then gives the state a new incarnation, makes that durable, and calls renewed().
  virtual std::string_view rolled_back() const { return {}; }
  /// Records that the state has got its new incarnation.
  virtual void renewed() {}

  /// Returns the damaged parts of a state that was opened in spite of them, for the log and
  /// /readyz; empty if no damage is known. Rows in these parts fail to load.
  virtual std::string_view damage() const { return {}; }

  /// Writes a copy of the state as it is now to `path`, an absolute path that does not exist yet.
  /// The copy appears there complete or not at all. An engine that is opened on the copy is
  /// rolled_back(). May run on any thread, at the same time as other calls.
  virtual Result<void> checkpoint(const std::string& path) const {
    return failure(Code::unsupported, "checkpoint {}: engine {} has no files of its own to copy",
                   path, name());
  }
};

inline Result<void> Engine::load(JobNumber job, const std::function<void(Row)>& each) {
  constexpr std::size_t kRows = 1'024;
  const std::unique_ptr<RowReader> reader = read(job);
  for (bool more = true; more;) {
    std::vector<Row> rows;
    const Result<bool> read = reader->next(rows, kRows);
    if (!read) return read.error();
    for (Row& row : rows) each(std::move(row));
    more = *read;
  }
  return {};
}

/// Returns the URL of an engine for logs and errors, with user and password replaced by ***.
std::string without_password(std::string_view url);

/// Opens an engine: memory: | rocksdb:/path | redis://[[user]:password@]host:port[/prefix]. Blocks.
/// Fails with a text that says what to do: unavailable if another try may help (with the pid that
/// holds the directory), state_rolled_back if the state has less than was acknowledged, malformed
/// if it is damaged, version_unsupported if its format is newer.
Result<std::unique_ptr<Engine>> open_engine(std::string_view url, const OpenOptions& options = {});

}  // namespace c10dd::store
