// SPDX-License-Identifier: Apache-2.0
// The file of a file store, and its lock. Processes append records under an exclusive lock, and
// read new records under a shared lock. A process opens the file anew for each lock, so that it
// notices when the file was replaced, and so that a forked process does not share the lock.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "client/internal/socket.h"
#include "client/stores/file_format.h"

namespace c10dd::client {

/// One process's position in the file. Not thread-safe.
class FileLog {
 public:
  using Deadline = std::chrono::steady_clock::time_point;
  enum class Lock { shared, exclusive };

  /// Opens the file; creates it if it does not exist. Blocks until `deadline` while other processes
  /// hold the lock, then fails with timed_out. Fails with invalid_argument if the path is not a
  /// file store.
  static Result<FileLog> open(const std::string& path, Deadline deadline);

  /// Keeps the file open and locked until the Turn is destroyed.
  class Turn {
   public:
    Turn(Turn&&) = default;
    ~Turn();

   private:
    friend class FileLog;
    Turn() = default;
    Descriptor file_;
    std::uint64_t id_ = 0;
    std::uint64_t size_ = 0;
  };
  /// Locks the file. Blocks until `deadline` while other processes hold the lock, then fails with
  /// timed_out.
  Result<Turn> turn(Lock lock, Deadline deadline);

  /// Returns whether the file may have changes that read() has not seen. Takes no lock.
  bool changed() const;

  /// Applies the new records to the state. Returns whether the file had changed. Ignores an
  /// unfinished record at the end: its writer must have been killed, because only the holder of the
  /// lock writes.
  Result<bool> read(const Turn& turn, LocalState& state);

  /// Writes one record, which contains `changes`, after the last record that read() has applied.
  /// First cuts off any bytes after that record, so read() must be called with the same `turn`
  /// before append(). Needs an exclusive lock. If append() fails, no change is made.
  Result<void> append(const Turn& turn, const std::vector<LocalChange>& changes);

  /// If most of the file is garbage, replaces the file by one that has only the present state.
  /// Needs an exclusive lock; do not use `turn` afterwards. If the replacement fails, the old file
  /// stays.
  void compact(const Turn& turn, const LocalState& state);

  /// Removes the file. Needs an exclusive lock.
  void remove();

 private:
  explicit FileLog(std::string path) : path_(std::move(path)) {}
  Result<Turn> lock(int flags, Lock lock, Deadline deadline) const;
  Result<void> take_lock(int file, Lock lock, Deadline deadline) const;
  Result<void> read_header(Turn& turn) const;
  Result<void> write_new(int file, const LocalState& state, std::uint64_t id,
                         std::uint64_t& size) const;
  Failure named(Failure reason) const;
  Failure failed(const std::string& what, int error) const;

  std::string path_;
  std::uint64_t id_ = 0;             // id of the file that was read; 0 if none was read
  std::uint64_t end_ = 0;            // offset of the end of the last whole record
  std::uint64_t seen_ = 0;           // size of the file when it was last read or written
  std::uint64_t compact_above_ = 0;  // compact() does nothing until end_ exceeds this number
};

}  // namespace c10dd::client
