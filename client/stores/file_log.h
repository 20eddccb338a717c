// SPDX-License-Identifier: Apache-2.0
// The file of a file store, and its lock. Processes append records under an exclusive lock, and
// read new records under a shared lock. The file is opened for each lock, so that a file that has
// replaced it is noticed, and a forked process shares no lock.
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

  /// Holds the file open and locked until it is destroyed.
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
  /// unfinished record at the end: its writer was killed, because only the holder of the lock
  /// writes.
  Result<bool> read(const Turn& turn, LocalState& state);

  /// Appends a record after the last one that was read. Needs an exclusive lock. If it fails, no
  /// change is made.
  Result<void> append(const Turn& turn, const std::vector<LocalChange>& changes);

  /// Replaces the file by one that has only the state, if most of the present file is garbage.
  /// Needs an exclusive lock; do not use `turn` afterwards. After a failure the file stays as it
  /// is.
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
  std::uint64_t id_ = 0;             // of the file that was read; 0: none
  std::uint64_t end_ = 0;            // offset of the end of the last whole record
  std::uint64_t seen_ = 0;           // size of the file then, with an unfinished record
  std::uint64_t compact_above_ = 0;  // after a failure: try again when end_ is larger
};

}  // namespace c10dd::client
