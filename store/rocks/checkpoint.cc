// SPDX-License-Identifier: Apache-2.0
// Writes checkpoints. A checkpoint is a state directory with rows/ and a high-water file. The
// tables are hard links if the checkpoint is on the file system of the state, otherwise copies.
#include <rocksdb/db.h>
#include <rocksdb/utilities/checkpoint.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "protocol/format.h"
#include "store/rocks/open.h"
#include "store/rocks/state_directory.h"

namespace c10dd::store {
namespace {

Failure refused(Code code, const std::string& path, const std::string& why) {
  return failure(code, "checkpoint {}: {}", path, why);
}

/// Returns whether `path` is `directory` or a path inside it.
bool inside(const std::filesystem::path& path, const std::filesystem::path& directory) {
  std::error_code error;
  const auto relative = std::filesystem::relative(path, directory, error);
  return !error && !relative.empty() && *relative.begin() != "..";
}

/// Checks that a checkpoint may be written to `path`.
Result<void> check(const std::string& path, const std::string& directory) {
  if (!path.starts_with('/') || path.find('\0') != std::string::npos || path.ends_with('/')) {
    return refused(Code::invalid_argument, path,
                   "the path is not absolute or ends with /; use the path of a new directory");
  }
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0) {
    return refused(Code::invalid_argument, path, "the path already exists; choose another one");
  }
  const std::string parent = std::filesystem::path(path).parent_path();
  if (::stat(parent.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) {
    return refused(Code::invalid_argument, path, parent + " is not a directory; create it first");
  }
  if (inside(path, directory)) {
    return refused(
        Code::invalid_argument, path,
        format("the path is in the state directory {}; choose one outside it", directory));
  }
  return {};
}

/// Fills the directory `path` with a copy of the rows and with a high-water file that has `mark`.
Result<void> fill(rocksdb::DB& db, const HighWaterMark& mark, const std::string& path) {
  rocksdb::Checkpoint* made = nullptr;
  rocksdb::Status status = rocksdb::Checkpoint::Create(&db, &made);
  const std::unique_ptr<rocksdb::Checkpoint> checkpoint(made);
  if (status.ok()) status = checkpoint->CreateCheckpoint(path + "/rows");
  if (!status.ok()) {
    return failure(status.IsNoSpace() ? Code::disk_full : Code::unavailable, status.ToString());
  }
  Result<HighWaterFile> high_water = HighWaterFile::open(path);
  if (!high_water) return high_water.error();
  return high_water->write(mark);
}

}  // namespace

Result<void> write_checkpoint(rocksdb::DB& db, const HighWaterMark& mark,
                              const std::string& directory, const std::string& path) {
  if (Result<void> good = check(path, directory); !good) return good;
  const std::string draft = path + ".partial";
  if (::mkdir(draft.c_str(), 0700) != 0) {
    const bool left = errno == EEXIST;
    return refused(errno == EACCES ? Code::permission_denied : Code::unavailable, path,
                   format("{} cannot be created: {}{}", draft, std::strerror(errno),
                          left ? "; an interrupted checkpoint left it behind: remove it" : ""));
  }
  HighWaterMark copied = mark;
  copied.holds = HighWaterMark::Holds::always;  // the copy has all rows on disk
  copied.renewal = HighWaterMark::Renewal::restored;
  Result<void> done = fill(db, copied, draft);
  if (done && ::rename(draft.c_str(), path.c_str()) != 0) {
    done = failure(Code::unavailable, "{} cannot be renamed: {}", draft, std::strerror(errno));
  }
  if (!done) {
    std::error_code ignored;
    std::filesystem::remove_all(draft, ignored);
    return refused(done.error().code, path,
                   done.error().detail + "; the incomplete copy was removed");
  }
  const std::string parent = std::filesystem::path(path).parent_path();
  if (!sync_directory(parent)) {
    return refused(Code::unavailable, path, "the copy was written, but may not survive power loss");
  }
  return {};
}

}  // namespace c10dd::store
