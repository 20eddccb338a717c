// SPDX-License-Identifier: Apache-2.0
// Files of which some are secret: certificates, keys, tokens. New ones have mode 0600 and never
// take the place of another file; renewed ones replace the old ones whole. What was written is on
// disk when a function returns.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "client/internal/socket.h"
#include "protocol/error.h"

namespace c10dd::ctl {

bool is_folder(const std::string& path);
/// Returns whether there is anything at the path, also a link that leads nowhere.
bool exists(const std::string& path);

/// Returns the bytes of a file. Fails with not_found if there is none, and with invalid_argument if
/// it cannot be read or has more than a MiB.
Result<std::string> read_file(const std::string& path);

/// Fails with invalid_argument if every user of the machine may read or write what is at the path.
Result<void> check_private(const std::string& path);
/// Fails with invalid_argument if every user of the machine may replace files of the folder.
Result<void> check_own(const std::string& folder);

struct SecretFile {
  std::string path;
  std::string text;
};

/// New files and folders. Unless they are kept, they are removed at the end of this object.
class NewFiles {
 public:
  NewFiles() = default;
  ~NewFiles();
  NewFiles(const NewFiles&) = delete;
  NewFiles& operator=(const NewFiles&) = delete;

  /// Makes a folder with mode 0700. Fails with unavailable, also if there is something at the path.
  Result<void> add_folder(const std::string& path);
  /// Writes a file. Fails as add_folder() does.
  Result<void> add(const SecretFile& file);
  void keep() { made_.clear(); }

 private:
  std::vector<std::string> made_;  // in the order in which they were made
};

/// Keeps other processes from replacing files of a folder.
class FolderLock {
 public:
  /// Waits until no other process has the lock. Fails with unavailable.
  static Result<FolderLock> of(const std::string& folder);
  /// Waits until the changes of the folder are on disk.
  void sync() const;

 private:
  explicit FolderLock(client::Descriptor folder) : folder_(std::move(folder)) {}

  client::Descriptor folder_;
};

/// Puts files of one folder in the place of older ones; each keeps the owner, the group and the
/// right of the group to read. All are written before the first one is replaced, so that they do
/// not fit together only between two renames. Calls of several processes happen one after the
/// other. Fails with unavailable; then the old files are there.
Result<void> replace_files(const std::vector<SecretFile>& files);
/// Does the same in a folder that the caller has locked.
Result<void> replace_files(const std::vector<SecretFile>& files, const FolderLock& lock);

}  // namespace c10dd::ctl
