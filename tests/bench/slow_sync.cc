// SPDX-License-Identifier: Apache-2.0
// Preloaded into the servers of c10dd-bench --sync-delay: every fsync and fdatasync takes
// SYNC_DELAY_US longer, as on a slower disk, and none returns while the file SYNC_HOLD_FILE is
// there, as on one that hangs. A module of its own, without the C++ library.
#include <dlfcn.h>
#include <time.h>
#include <unistd.h>

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

int sync_and_delay(const char* name, int file) {
  const auto real = reinterpret_cast<int (*)(int)>(dlsym(RTLD_NEXT, name));
  const int result = real(file);
  delay();
  return result;
}

}  // namespace

extern "C" int fsync(int file) { return sync_and_delay("fsync", file); }
extern "C" int fdatasync(int file) { return sync_and_delay("fdatasync", file); }
