// SPDX-License-Identifier: Apache-2.0
// The state directory, which is locked by one daemon at a time. The kernel releases the lock when
// the process ends, so a crash leaves no stale lock. The lock does not show whether a directory was
// copied or restored. On a network file system, the lock is only as reliable as flock() is there.
// The directory has rows/ (RocksDB), highwater (high_water.h), ballast (daemon/shard/disk_watch.h)
// and c10dd.lock, the lock.
#pragma once

#include <string>

#include "protocol/error.h"

namespace c10dd::store {

/// Syncs a directory, so that the names in it are on disk. Returns false on failure, with errno
/// set.
bool sync_directory(const std::string& path);

/// Owns the lock of a state directory.
class StateDirectory {
 public:
  /// Locks a directory. If it does not exist, creates it with mode 0700; otherwise keeps its mode.
  /// Syncs the directory's name to disk. Fails with permission_denied if `path` is not a directory
  /// or not writable. If another daemon has locked the directory, fails with unavailable and a text
  /// that has the pid of that daemon.
  static Result<StateDirectory> open(std::string path);

  ~StateDirectory();
  StateDirectory(StateDirectory&& other) noexcept;
  StateDirectory& operator=(StateDirectory&&) = delete;

  const std::string& path() const { return path_; }

 private:
  StateDirectory(std::string path, int lock) : path_(std::move(path)), lock_(lock) {}

  std::string path_;
  int lock_;
};

}  // namespace c10dd::store
