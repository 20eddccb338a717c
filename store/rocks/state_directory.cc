// SPDX-License-Identifier: Apache-2.0
// Locks a directory by flock() on its file c10dd.lock, which contains the holder's pid for people.
// The file is never removed: otherwise, two daemons could lock two files of the same name.
#include "store/rocks/state_directory.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <vector>

#include "protocol/format.h"
#include "store/rocks/high_water.h"

namespace c10dd::store {
namespace {

constexpr const char* kLockFile = "c10dd.lock";

std::string user() {
  const uid_t uid = ::geteuid();
  std::array<char, 4096> buffer;
  passwd entry{};
  passwd* found = nullptr;
  ::getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found);
  return found ? format("{} (uid {})", found->pw_name, uid) : format("uid {}", uid);
}

Failure refused(const std::string& path, const std::string& what, int error) {
  const bool temporary = error == EIO || error == ENOSPC || error == EMFILE || error == ENFILE;
  return failure(temporary ? Code::unavailable : Code::permission_denied,
                 "state directory: {} {} for user {}: {}; check its owner and mode", path, what,
                 user(), std::strerror(error));
}

/// Syncs directories in which names were created. Skips a directory that the user has no right to
/// read, or that the file system cannot sync.
Result<void> sync_names(const std::string& path, const std::vector<std::string>& directories) {
  for (const std::string& directory : directories) {
    if (!sync_directory(directory) && errno != EACCES && errno != EINVAL) {
      return refused(path, "cannot be synced in " + directory, errno);
    }
  }
  return {};
}

Result<void> create(const std::string& path) {
  std::error_code ignored;  // if a call with `ignored` fails, a later one reports the cause
  const std::filesystem::path whole = std::filesystem::absolute(path, ignored);
  const std::filesystem::path parent = whole.parent_path();
  std::vector<std::string> named;  // directories in which a name is about to be created
  for (std::filesystem::path at = whole;
       !std::filesystem::exists(at, ignored) && at != at.parent_path(); at = at.parent_path()) {
    named.push_back(at.parent_path());
  }
  // An earlier start may have ended before it synced the name of the directory.
  if (named.empty() && !std::filesystem::exists(HighWaterFile::path_in(whole), ignored)) {
    named.push_back(parent);
  }
  std::error_code failed;
  std::filesystem::create_directories(parent, failed);
  if (failed) return refused(path, "cannot be created in " + named.back(), failed.value());
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return refused(path, "cannot be created", errno);
  }
  if (Result<void> synced = sync_names(path, named); !synced) return synced;
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return refused(path, "cannot be read", errno);
  if (!S_ISDIR(status.st_mode)) {
    return failure(
        Code::permission_denied,
        "state directory: {} is not a directory, so user {} cannot keep files in it; choose "
        "another path",
        path, user());
  }
  return {};
}

/// Reads the pid in the lock file, and returns a text that names the holder of the lock.
std::string holder(int lock) {
  std::array<char, 32> text{};
  const ssize_t length = ::pread(lock, text.data(), text.size(), 0);
  std::string pid;
  for (ssize_t i = 0; i < length && text[i] >= '0' && text[i] <= '9'; ++i) pid += text[i];
  return pid.empty() ? "a process that is just starting" : "pid " + pid;
}

/// Writes the pid before it truncates the file, so that a reader never finds the file empty.
bool write_pid(int lock) {
  const std::string text = std::to_string(::getpid()) + "\n";
  const auto size = static_cast<ssize_t>(text.size());
  return ::pwrite(lock, text.data(), text.size(), 0) == size && ::ftruncate(lock, size) == 0;
}

}  // namespace

bool sync_directory(const std::string& path) {
  const int directory = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return false;
  const bool synced = ::fsync(directory) == 0;
  const int error = errno;
  ::close(directory);
  errno = error;
  return synced;
}

Result<StateDirectory> StateDirectory::open(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  if (path.empty()) {
    return failure(Code::invalid_argument,
                   "state directory: the path is empty; name a directory, as in rocksdb:/path");
  }
  if (Result<void> created = create(path); !created) return created.error();
  const std::string file = path + "/" + kLockFile;
  const int lock = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (lock < 0) return refused(path, "is not writable", errno);
  StateDirectory directory(path, lock);
  if (::faccessat(AT_FDCWD, path.c_str(), W_OK | X_OK, AT_EACCESS) != 0)
    return refused(path, "is not writable", errno);
  if (::flock(lock, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return refused(path, "cannot be locked", errno);
    return failure(Code::unavailable,
                   "state directory: {} is held by {}; stop that daemon or choose another path",
                   path, holder(lock));
  }
  if (!write_pid(lock)) return refused(path, "is not writable", errno);
  return directory;
}

StateDirectory::~StateDirectory() {
  if (lock_ >= 0) ::close(lock_);
}

StateDirectory::StateDirectory(StateDirectory&& other) noexcept
    : path_(std::move(other.path_)), lock_(other.lock_) {
  other.lock_ = -1;
}

}  // namespace c10dd::store
