// SPDX-License-Identifier: Apache-2.0
// With C10DD_BUNDLE: what std::random_device of Debian's static libstdc++ calls, so that the daemon
// needs no glibc of 2.36 for it.
#include <sys/random.h>

#include <cstdint>
#include <cstdlib>

extern "C" std::uint32_t arc4random() {
  std::uint32_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != sizeof number) std::abort();
  return number;
}
