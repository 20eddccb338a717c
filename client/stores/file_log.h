// SPDX-License-Identifier: Apache-2.0
// The file of a file store, and its lock: processes append records under an exclusive lock and
// read what is new under a shared one. The file is opened for every turn, so that a new file in its
// place is noticed and a fork shares no lock. Not thread-safe.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "client/internal/socket.h"
#include "client/stores/file_format.h"

namespace c10dd::client {

class FileLog {
 public:
  using Deadline = std::chrono::steady_clock::time_point;
  enum class Lock { shared, exclusive };

  /// Creates the file unless it is there.
  static Result<FileLog> open(const std::string& path, Deadline deadline);

  /// The file under a lock, until this is destroyed.
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
  /// timed_out when others have it until the deadline.
  Result<Turn> turn(Lock lock, Deadline deadline);

  /// Whether there is something that was not read yet; without a lock.
  bool changed() const;

  /// Brings the state up to date; whether anything was new. An unfinished record at the end does
  /// not count: who wrote it is dead.
  Result<bool> read(const Turn& turn, LocalState& state);

  /// Adds a record after all that was read, under an exclusive lock. If it fails, nothing of it
  /// counts.
  Result<void> append(const Turn& turn, const std::vector<LocalChange>& changes);

  /// Puts a file in place that has only the state, when most of the present one is garbage. Then
  /// the turn is over. A failure is harmless: the file stays as it is.
  void compact(const Turn& turn, const LocalState& state);

  /// Takes the file away, under an exclusive lock.
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
  std::uint64_t id_ = 0;             // of the file that was read
  std::uint64_t end_ = 0;            // of the last whole record
  std::uint64_t seen_ = 0;           // size of the file then, with what does not count
  std::uint64_t compact_above_ = 0;  // do not try again before
};

}  // namespace c10dd::client
