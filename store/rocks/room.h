// SPDX-License-Identifier: Apache-2.0
// Runs compactions, which free the disk space of removed rows. A compaction may block while the
// disk has no room, so it runs on a separate thread. The destructor of RoomKeeper stops the running
// compaction, and then waits for this thread. No other function waits for the thread.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace rocksdb {
class DB;
class Env;
class EventListener;
class FileSystem;
}  // namespace rocksdb

namespace c10dd::store {

inline constexpr const char* kCompactionsPause = "compactions pause for lack of disk space";

/// Computes how many bytes must stay free on the disk so that compactions can run.
class RoomNeed {
 public:
  /// `unit` is the size of a table in bytes. `compaction` is the largest input, in bytes, of a
  /// compaction below the two upper levels.
  RoomNeed(std::uint64_t unit, std::uint64_t compaction) : unit_(unit), compaction_(compaction) {}

  /// Computes the need again from the tables of `db`. RocksDB's threads also call look().
  void look(rocksdb::DB& db);
  /// Returns the need in bytes. Thread-safe.
  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t unit() const { return unit_; }

 private:
  const std::uint64_t unit_;
  const std::uint64_t compaction_;
  std::atomic<std::uint64_t> bytes_ = 0;
};

/// Returns a listener that calls need->look() after each flush and each compaction. Also keeps from
/// RocksDB that a compaction has found the disk full. RocksDB would begin no compaction then whose
/// input is larger than about half of the free bytes, although the output may be nothing if the
/// rows were erased, and it would fail commits that have to wait for a flush.
std::shared_ptr<rocksdb::EventListener> listener_of(std::shared_ptr<RoomNeed> need);

/// Leaves room for logs and flushed tables, which RocksDB must be able to write: a compaction fails
/// before it uses up the disk. After such a failure, RocksDB tries again every second, so
/// compactions fail at once for some time; the texts of these failures contain kCompactionsPause.
class RoomGuard {
 public:
  /// env() passes everything on to `files`. `floor` is how many bytes a compaction leaves free.
  RoomGuard(const std::shared_ptr<rocksdb::FileSystem>& files, std::uint64_t floor);
  ~RoomGuard();

  /// The environment for the options of RocksDB. Must outlive the database.
  rocksdb::Env* env() const { return env_.get(); }

  /// While `now` is true, no earlier failure makes a compaction fail. Thread-safe.
  void try_again(bool now);

 private:
  class Files;

  const std::shared_ptr<Files> files_;
  const std::unique_ptr<rocksdb::Env> env_;
};

/// Owns the thread that compacts.
class RoomKeeper {
 public:
  /// Number of erased rows that justifies an immediate compaction.
  static constexpr std::size_t kWorthCompacting = 1'000;

  /// `guard` has the environment of `db`. `path` is any path on the disk of the rows. `unit`
  /// is the size of a table in bytes.
  RoomKeeper(rocksdb::DB& db, RoomGuard& guard, std::string path, std::uint64_t unit);
  /// Stops a compaction that is running, and joins the thread.
  ~RoomKeeper();

  /// Notes that rows were erased. Thread-safe.
  void erased(std::size_t rows) { erased_ += rows; }

  /// Wakes the thread, but does not wait for it. The thread compacts at once if many rows were
  /// erased since the last compaction; for few rows, it first lets some time pass. Returns false if
  /// the last attempt failed or had no room to begin. Thread-safe.
  bool relieve();

 private:
  using Clock = std::chrono::steady_clock;

  void work();
  void tidy();
  bool worth_it() const;
  std::uint64_t free_bytes() const;
  /// Returns whether the database still has records that erase older rows. A compaction of all
  /// tables removes these records, except the records of rows that were erased meanwhile.
  bool has_deletions() const;

  rocksdb::DB& db_;
  RoomGuard& guard_;
  const std::string path_;
  const std::uint64_t unit_;
  std::atomic<std::size_t> erased_;
  std::atomic<bool> stuck_ = false;  ///< the last attempt failed or had no room to begin

  // Used by the thread only.
  Clock::time_point ended_{};  ///< end of the last compaction
  Clock::duration took_{};     ///< its duration
  Clock::duration pause_{};    ///< time from a failed attempt to the next attempt
  bool follow_up_ = false;     ///< if room stays short, compact again without newly erased rows
  std::uint64_t free_when_stuck_ = 0;
  struct Attempt {
    Clock::time_point begun;
    std::size_t erased;  ///< rows that had been erased when it began
    std::uint64_t free;
  };
  std::optional<Attempt> failed_;  ///< since the last success, the newest compaction that failed

  std::mutex mutex_;
  std::condition_variable changed_;
  bool asked_ = false;
  bool stopping_ = false;
  std::thread thread_;  ///< last member, because the thread uses the other members
};

}  // namespace c10dd::store
