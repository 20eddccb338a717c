// SPDX-License-Identifier: Apache-2.0
// Keeps the rows of all jobs across restarts.
// Contract, run against every engine by tests/unit/store/engine_contract_test.cc:
//  - a batch is all or nothing, and durable once commit() reports it durable;
//  - batches of one job form a chain: from_rev is the revision that the engine has, to_rev is the
//    one it has afterwards. Committing the same (job, epoch, from, to) again is success for every
//    batch of the newest commit() that changed the job, so an unknown outcome is resolved by
//    repeating it; any other gap is refused as fenced;
//  - a batch whose epoch is older than the job's newest claim is fenced and has no effect;
//  - read() yields exactly the rows of all durable batches of the job, in byte order of their keys;
//  - one caller at a time; after Outcome::unknown the engine does nothing more: outcomes are
//    unknown, everything else fails as unavailable, until it is opened again.
// Blocking on purpose: GroupCommit owns the thread and the batching for all engines.
// To add one: write store/<name>_engine.cc, add a line to open_engine.cc, run the contract.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "protocol/error.h"
#include "protocol/types.h"

namespace c10dd::store {

/// Consecutive changes of one job. Rows apply in order.
struct JobBatch {
  JobNumber job = 0;
  Epoch epoch = 0;
  Revision from_rev = 0;
  Revision to_rev = 0;  ///< >= from_rev; equal only for a batch without rows
  std::vector<Row> rows;
};

/// What is known after a commit or a confirmation.
enum class Outcome : std::uint8_t {
  durable,  ///< done, and the job was still owned under this epoch
  fenced,   ///< not done: another owner has claimed the job since
  unknown,  ///< may or may not be done; reopen the engine and ask again
};

/// A claim of ownership: batches must carry its epoch.
struct Claim {
  Epoch epoch = 0;
  Revision revision = 0;  ///< of the newest durable batch
};

struct Ownership {
  JobNumber job = 0;
  Epoch epoch = 0;
};

enum class Durability : std::uint8_t {
  fsync,  ///< survives power loss
  os,     ///< survives the death of the process only
  none,   ///< survives a clean close only
};

struct HighWaterMark;

struct OpenOptions {
  Durability durability = Durability::fsync;
  /// Go on with what is left of a state that has lost acknowledged changes, for this once.
  bool accept_rollback = false;
  /// What an earlier engine of this process has acknowledged on the same state: less is refused.
  std::shared_ptr<const HighWaterMark> acknowledged = nullptr;
  /// What the engine's library warns of, one line at a time, on any thread.
  std::function<void(std::string_view line)> warn = {};
};

/// Reads the rows of one job piece by piece; between two pieces the engine serves others.
class RowReader {
 public:
  virtual ~RowReader() = default;

  /// Appends the next piece: at most `most` rows, or about a megabyte. There may be none while the
  /// engine still looks. False: it was the last. A damaged row is a failure, never a shorter list.
  virtual Result<bool> next(std::vector<Row>& rows, std::size_t most) = 0;

 protected:
  static constexpr std::size_t kPieceBytes = 1024 * 1024;
};

class Engine {
 public:
  virtual ~Engine() = default;

  /// "memory", "rocksdb", "redis": for metrics and /readyz.
  virtual std::string_view name() const = 0;

  /// What "durable" really means here, whatever was asked for: "fsync" survives power loss, "os"
  /// survives the death of processes, "none" survives at most a clean close.
  virtual std::string_view durability() const = 0;

  /// Whether other processes may own jobs of this engine, so that a read must be confirmed.
  virtual bool shared() const = 0;

  /// The jobs that have been claimed at least once.
  virtual Result<std::vector<JobNumber>> jobs() = 0;

  /// Makes the caller the owner of a job, known or new; durable before it returns.
  virtual Result<Claim> claim(JobNumber job) = 0;

  /// Extends a claim where claims expire; elsewhere checks it.
  virtual Result<void> renew(const Ownership& owner) = 0;

  /// Gives a job up, so that another owner need not wait: the epoch is fenced and never reused.
  virtual Result<void> release(const Ownership& owner) = 0;

  /// Whoever changes the job meanwhile has claimed it: the reader of the rows asks renew() after
  /// the last one. The engine outlives what it returns.
  virtual std::unique_ptr<RowReader> read(JobNumber job) = 0;

  /// All of read() at once: calls each(row) for every row of the job.
  Result<void> load(JobNumber job, const std::function<void(Row)>& each);

  /// One outcome per batch, in order. Several batches of one job are allowed.
  virtual std::vector<Outcome> commit(std::span<const JobBatch> batches) = 0;

  /// Whether each job is still owned under its epoch, by evidence newer than this call.
  virtual std::vector<Outcome> confirm(std::span<const Ownership> owners) = 0;

  /// Room on the disk is short: begins to let go of what was removed, and waits for nothing. False:
  /// it had no room for that when it last tried.
  virtual bool relieve() { return true; }

  /// Bytes that must stay free on the disk, or what is removed gives no room back. From any thread.
  virtual std::uint64_t room_to_tidy() const { return 0; }

  /// How far the state has come, for the engine that is opened after this one; null where a loss is
  /// noticed in other ways. From any thread.
  virtual std::shared_ptr<const HighWaterMark> acknowledged() const { return nullptr; }

  /// Why the state may be older than what clients have seen, for the log; empty when it is not.
  /// Its owner gives it a new incarnation, makes that durable, then calls renewed().
  virtual std::string_view rolled_back() const { return {}; }
  virtual void renewed() {}

  /// What is damaged of state that was opened all the same, for the log and /readyz; empty when
  /// nothing is known of. Its rows fail to load.
  virtual std::string_view damage() const { return {}; }

  /// Writes a copy of the state as it is now to `path`, which is absolute and not there; it
  /// appears complete or not at all. An engine that is opened on a copy of it is rolled_back().
  /// The one call that may run beside the others, on any thread.
  virtual Result<void> checkpoint(const std::string& path) const {
    return failure(Code::unsupported, "checkpoint " + path + ": engine " + std::string(name()) +
                                          " has no files of its own to copy");
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

/// The URL of an engine for logs and errors.
std::string without_password(std::string_view url);

/// memory: | rocksdb:/path | redis://[[user]:password@]host:port[/prefix]. Fails with what to do:
/// unavailable when another try may help (naming the pid that holds the directory),
/// state_rolled_back for less than was acknowledged, malformed for damage, version_unsupported for
/// a newer format.
Result<std::unique_ptr<Engine>> open_engine(std::string_view url, const OpenOptions& options = {});

}  // namespace c10dd::store
