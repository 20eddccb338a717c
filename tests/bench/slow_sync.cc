// SPDX-License-Identifier: Apache-2.0
// Preloaded into the servers of c10dd-bench --sync-delay and of tests. Every fsync and fdatasync
// takes SYNC_DELAY_US longer, as on a slower disk. While the file SYNC_HOLD_FILE exists, no sync
// returns, as on a disk that hangs. The path of each synced file is added as a line to the file
// SYNC_LOG_FILE. A module of its own, without the C++ library.
#include <dlfcn.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace {

void delay() {
  static const long us = [] {
    const char* text = std::getenv("SYNC_DELAY_US");
    return text == nullptr ? 0L : std::atol(text);
  }();
  const timespec pause{us / 1'000'000, us % 1'000'000 * 1'000};
  nanosleep(&pause, nullptr);
  static const char* const hold = std::getenv("SYNC_HOLD_FILE");
  const timespec moment{0, 10'000'000};
  while (hold != nullptr && access(hold, F_OK) == 0) nanosleep(&moment, nullptr);
}

/// Appends the path of an open file to SYNC_LOG_FILE.
void record(int file) {
  static const char* const name = std::getenv("SYNC_LOG_FILE");
  static const int log =
      name == nullptr ? -1 : open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (log < 0) return;
  char link[32];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  char path[4096];
  const ssize_t size = readlink(link, path, sizeof path - 1);
  if (size < 0) return;
  path[size] = '\n';
  static_cast<void>(!write(log, path, static_cast<size_t>(size) + 1));
}

int sync_and_delay(const char* name, int file) {
  const auto real = reinterpret_cast<int (*)(int)>(dlsym(RTLD_NEXT, name));
  const int result = real(file);
  record(file);
  delay();
  return result;
}

}  // namespace

extern "C" int fsync(int file) { return sync_and_delay("fsync", file); }
extern "C" int fdatasync(int file) { return sync_and_delay("fdatasync", file); }
