// SPDX-License-Identifier: Apache-2.0
// Which names of files and directories are on disk: takes the place of the C library's fsync in the
// program that includes it, once, and notes what is in each directory that is synced.
#pragma once

#include <dirent.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <mutex>
#include <set>
#include <string>

namespace c10dd {

class DurableNames {
 public:
  static DurableNames& of_this_process() {
    static DurableNames names;
    return names;
  }

  bool contain(const std::string& path) const {
    const std::lock_guard lock(mutex_);
    return names_.contains(path);
  }

  void synced(int file) {
    std::array<char, 4096> path{};
    const std::string link = "/proc/self/fd/" + std::to_string(file);
    if (::readlink(link.c_str(), path.data(), path.size() - 1) <= 0) return;
    DIR* directory = ::opendir(path.data());
    if (directory == nullptr) return;  // a file
    const std::lock_guard lock(mutex_);
    while (const dirent* entry = ::readdir(directory)) {
      names_.insert(std::string(path.data()) + "/" + entry->d_name);
    }
    ::closedir(directory);
  }

 private:
  mutable std::mutex mutex_;
  std::set<std::string> names_;
};

}  // namespace c10dd

extern "C" inline __attribute__((used)) int fsync(int file) {
  c10dd::DurableNames::of_this_process().synced(file);
  return static_cast<int>(::syscall(SYS_fsync, file));
}
