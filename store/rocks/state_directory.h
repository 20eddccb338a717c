// SPDX-License-Identifier: Apache-2.0
// The directory that belongs to one daemon at a time. The kernel releases the hold with the
// process, so there is no stale lock after a crash; a copied or restored directory is not noticed
// here. Locks of a network file system are as good as that file system's flock().
#pragma once

#include <string>

#include "protocol/error.h"

namespace c10dd::store {

/// The names in a directory are on disk when it returns true; else errno says why not.
bool sync_directory(const std::string& path);

class StateDirectory {
 public:
  /// Creates the directory if need be (mode 0700; an existing mode is left alone), its name on
  /// disk, and takes hold of it. Fails with permission_denied when it is not a directory or not
  /// writable, and with unavailable, naming the holder's pid, when another daemon has it.
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
