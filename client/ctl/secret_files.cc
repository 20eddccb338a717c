// SPDX-License-Identifier: Apache-2.0
#include "client/ctl/secret_files.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "protocol/format.h"
#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd::ctl {
namespace {

using client::Descriptor;

constexpr std::size_t kSecretFileBytes = 1024 * 1024;
constexpr mode_t kFileMode = S_IRUSR | S_IWUSR;
constexpr mode_t kFolderMode = S_IRWXU;
constexpr mode_t kForAll = S_IROTH | S_IWOTH;

Failure not_written(const std::string& path, int error) {
  return failure(Code::unavailable,
                 "cannot write {} ({}); check the owner of its folder and the room on its disk",
                 path, std::strerror(error));
}

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

/// Writes all of a text, and waits until it is on disk.
bool write_synced(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return ::fsync(file) == 0;
}

/// Waits until the names of a folder are on disk. Some file systems cannot do that.
void sync_folder(const std::string& path) {
  const Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder) ::fsync(folder.get());
}

/// A file beside the one that it shall replace. It is removed unless it has replaced it.
class Draft {
 public:
  Draft() = default;
  Draft(Draft&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  Draft& operator=(Draft&& other) noexcept {
    std::swap(path_, other.path_);
    return *this;
  }
  ~Draft() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }

  Result<void> write(const SecretFile& file) {
    std::string path = file.path + ".XXXXXX";
    const Descriptor made(::mkostemp(path.data(), O_CLOEXEC));
    if (!made) return not_written(file.path, errno);
    path_ = path;
    if (Result<void> same = take_owner(made.get(), file.path); !same) return same;
    if (!write_synced(made.get(), file.text)) return not_written(file.path, errno);
    return {};
  }

  Result<void> replace(const std::string& path) {
    if (::rename(path_.c_str(), path.c_str()) != 0) return not_written(path, errno);
    path_.clear();
    return {};
  }

 private:
  /// Gives the draft to the owner of the old file, so that a daemon that can read this one can read
  /// the new one.
  static Result<void> take_owner(int draft, const std::string& old_path) {
    struct stat old {};
    struct stat own {};
    if (::stat(old_path.c_str(), &old) != 0) {
      return ::fchmod(draft, kFileMode) == 0 ? Result<void>() : not_written(old_path, errno);
    }
    if (::fstat(draft, &own) != 0) return not_written(old_path, errno);
    const bool same = own.st_uid == old.st_uid && own.st_gid == old.st_gid;
    if (!same && ::fchown(draft, old.st_uid, old.st_gid) != 0) {
      return failure(Code::unavailable,
                     "cannot give the new {} to the owner of the old one ({}); run c10ddctl as its "
                     "owner or as root",
                     old_path, std::strerror(errno));
    }
    if (::fchmod(draft, kFileMode | (old.st_mode & S_IRGRP)) == 0) return {};
    return not_written(old_path, errno);
  }

  std::string path_;
};

/// An older file, to which a failed replacement returns.
struct OldFile {
  std::string path;
  Draft copy;
  bool existed = false;
};

Result<OldFile> saved(const std::string& path) {
  OldFile old{path, {}, exists(path)};
  if (!old.existed) return old;
  const Result<std::string> text = read_file(path);
  if (!text) return failure(Code::unavailable, text.error().detail);
  if (Result<void> written = old.copy.write({path, *text}); !written) return written.error();
  return old;
}

void restore(OldFile& old) {
  if (old.existed) {
    static_cast<void>(old.copy.replace(old.path));  // nothing else can be done
  } else {
    ::unlink(old.path.c_str());
  }
}

}  // namespace

bool is_folder(const std::string& path) {
  struct stat is {};
  return ::stat(path.c_str(), &is) == 0 && S_ISDIR(is.st_mode);
}

bool exists(const std::string& path) {
  struct stat is {};
  return ::lstat(path.c_str(), &is) == 0;
}

Result<std::string> read_file(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file && errno == ENOENT) return failure(Code::not_found, "there is no file {}", path);
  std::string text(kSecretFileBytes + 1, '\0');
  std::size_t size = 0;
  while (file && size < text.size()) {
    const ssize_t count = ::read(file.get(), text.data() + size, text.size() - size);
    if (count < 0 && errno == EINTR) continue;
    if (count == 0) break;
    if (count < 0) {
      size = std::string::npos;
      break;
    }
    size += static_cast<std::size_t>(count);
  }
  if (!file || size == std::string::npos) {
    return failure(Code::invalid_argument, "cannot read {} ({}); check who owns it", path,
                   std::strerror(errno));
  }
  if (size > kSecretFileBytes) {
    return failure(Code::invalid_argument,
                   "{} is longer than the limit of {} bytes; check that it is the right file", path,
                   kSecretFileBytes);
  }
  text.resize(size);
  return text;
}

Result<void> check_private(const std::string& path) {
  struct stat is {};
  if (::stat(path.c_str(), &is) != 0 || (is.st_mode & kForAll) == 0) return {};
  return failure(Code::invalid_argument, "{} may be read by every user of this machine; {}", path,
                 close_to_others(path));
}

Result<void> check_own(const std::string& folder) {
  struct stat is {};
  if (::stat(folder.c_str(), &is) != 0 || (is.st_mode & S_IWOTH) == 0) return {};
  return failure(
      Code::invalid_argument,
      "every user of this machine may replace the files of {}; run chmod o-w {}, or give "
      "another folder",
      folder, folder);
}

NewFiles::~NewFiles() {
  for (auto path = made_.rbegin(); path != made_.rend(); ++path) ::remove(path->c_str());
}

Result<void> NewFiles::add_folder(const std::string& path) {
  if (::mkdir(path.c_str(), kFolderMode) != 0) {
    return failure(Code::unavailable, "cannot make the folder {} ({}); check the folder above it",
                   path, std::strerror(errno));
  }
  made_.push_back(path);
  if (::chmod(path.c_str(), kFolderMode) != 0) return not_written(path, errno);
  sync_folder(folder_of(path));
  return {};
}

Result<void> NewFiles::add(const SecretFile& file) {
  const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
  const Descriptor made(::open(file.path.c_str(), flags, kFileMode));
  if (!made) return not_written(file.path, errno);
  made_.push_back(file.path);
  const bool good = ::fchmod(made.get(), kFileMode) == 0 && write_synced(made.get(), file.text);
  if (!good) return not_written(file.path, errno);
  sync_folder(folder_of(file.path));
  return {};
}

Result<FolderLock> FolderLock::of(const std::string& folder) {
  Descriptor lock(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock || ::flock(lock.get(), LOCK_EX) != 0) return not_written(folder, errno);
  return FolderLock(std::move(lock));
}

void FolderLock::sync() const { ::fsync(folder_.get()); }

Result<void> replace_files(const std::vector<SecretFile>& files) {
  const Result<FolderLock> lock = FolderLock::of(folder_of(files.front().path));
  return lock ? replace_files(files, *lock) : lock.error();
}

Result<void> replace_files(const std::vector<SecretFile>& files, const FolderLock& lock) {
  std::vector<OldFile> old;
  std::vector<Draft> drafts(files.size());
  for (std::size_t at = 0; at < files.size(); ++at) {
    if (Result<void> written = drafts[at].write(files[at]); !written) return written;
    if (at + 1 == files.size()) break;  // after the last one nothing can fail
    Result<OldFile> one = saved(files[at].path);
    if (!one) return one.error();
    old.push_back(std::move(*one));
  }
  for (std::size_t at = 0; at < files.size(); ++at) {
    Result<void> replaced = drafts[at].replace(files[at].path);
    if (replaced) continue;
    for (std::size_t done = 0; done < at; ++done) restore(old[done]);
    return replaced;
  }
  lock.sync();
  return {};
}

}  // namespace c10dd::ctl
