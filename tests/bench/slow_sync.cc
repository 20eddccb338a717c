// SPDX-License-Identifier: Apache-2.0
// Preloaded into the servers of c10dd-bench --sync-delay and --read-rate, and of tests. Every fsync
// and fdatasync takes SYNC_DELAY_US longer, as on a slower disk. Every pread() of more than one
// page takes as long as a disk needs that reads READ_BYTES_PER_S. While the file SYNC_HOLD_FILE
// exists, no sync returns, as on a disk that hangs. The path of each synced file is added as a line
// to the file SYNC_LOG_FILE. A module of its own, without the C++ library.
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

ssize_t read_and_delay(const char* name, int file, void* to, size_t size, off64_t at) {
  using Read = ssize_t (*)(int, void*, size_t, off64_t);
  const auto real = reinterpret_cast<Read>(dlsym(RTLD_NEXT, name));
  const ssize_t result = real(file, to, size, at);
  static const double rate = [] {
    const char* text = std::getenv("READ_BYTES_PER_S");
    return text == nullptr ? 0.0 : std::atof(text);
  }();
  constexpr ssize_t kPage = 4096;
  if (rate <= 0 || result <= kPage) return result;
  const auto ns = static_cast<long>(static_cast<double>(result) / rate * 1e9);
  const timespec pause{ns / 1'000'000'000, ns % 1'000'000'000};
  nanosleep(&pause, nullptr);
  return result;
}

int sync_and_delay(const char* name, int file) {
  const auto real = reinterpret_cast<int (*)(int)>(dlsym(RTLD_NEXT, name));
  const int result = real(file);
  record(file);
  delay();
  return result;
}

}  // namespace

extern "C" ssize_t pread(int file, void* to, size_t size, off_t at) {
  return read_and_delay("pread", file, to, size, at);
}
extern "C" ssize_t pread64(int file, void* to, size_t size, off64_t at) {
  return read_and_delay("pread64", file, to, size, at);
}
extern "C" int fsync(int file) { return sync_and_delay("fsync", file); }
extern "C" int fdatasync(int file) { return sync_and_delay("fdatasync", file); }
