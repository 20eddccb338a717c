// SPDX-License-Identifier: Apache-2.0
// Gives room back to the disk: compacts what was removed. RocksDB may wait there for as long as the
// disk has no room, so all of it is on a thread of its own, and nobody waits for that thread but
// the end of the engine, which stops it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace rocksdb {
class DB;
class EventListener;
}  // namespace rocksdb

namespace c10dd::store {

/// How much must stay free on the disk, so that compactions can let go of what was removed.
class RoomNeed {
 public:
  /// unit: bytes of a table; compaction: of the input of one, beyond the two upper levels.
  RoomNeed(std::uint64_t unit, std::uint64_t compaction) : unit_(unit), compaction_(compaction) {}

  void look(rocksdb::DB& db);
  /// From any thread.
  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t unit() const { return unit_; }

 private:
  const std::uint64_t unit_;
  const std::uint64_t compaction_;
  std::atomic<std::uint64_t> bytes_ = 0;
};

/// Looks again whenever a table was written.
std::shared_ptr<rocksdb::EventListener> listener_of(std::shared_ptr<RoomNeed> need);

class RoomKeeper {
 public:
  /// Erased rows that are worth a compaction at once.
  static constexpr std::size_t kWorthCompacting = 1'000;

  /// unit: bytes of a table.
  RoomKeeper(rocksdb::DB& db, std::string path, std::uint64_t unit);
  /// Stops what is under way.
  ~RoomKeeper();

  /// So many rows were erased.
  void erased(std::size_t rows) { erased_ += rows; }

  /// Begins a compaction, if enough was removed since the last one. False: it had no room for that
  /// when it last tried.
  bool relieve();

 private:
  using Clock = std::chrono::steady_clock;

  void work();
  void tidy();
  bool worth_it() const;
  std::uint64_t free_bytes() const;

  rocksdb::DB& db_;
  const std::string path_;
  const std::uint64_t unit_;
  std::atomic<std::size_t> erased_;
  std::atomic<bool> stuck_ = false;

  // Of the thread.
  Clock::time_point ended_{};
  Clock::duration took_{};
  Clock::duration pause_{};  ///< before the next attempt, after one without room
  std::uint64_t free_when_stuck_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool asked_ = false;
  bool stopping_ = false;
  std::thread thread_;  ///< last: it uses all of the above
};

}  // namespace c10dd::store
