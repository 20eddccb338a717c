// SPDX-License-Identifier: Apache-2.0
// Not std::random_device: that of GCC 12 needs a newer C library than the Python package promises.
#include "protocol/random.h"

#include <sys/random.h>

#include "protocol/error.h"

namespace c10dd {

std::uint64_t random_number() {
  std::uint64_t number = 0;
  // So few bytes are not interrupted.
  const bool read = getrandom(&number, sizeof number, 0) == sizeof number;
  C10DD_ASSERT(read);
  return number;
}

}  // namespace c10dd
