// SPDX-License-Identifier: Apache-2.0
// Any bytes as a log: what is found behind the damage is a later change within the window, is the
// same again, and is still found in a longer log.
#include "store/rocks/log.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/target.h"

C10DD_FUZZ(rocks_log) {
  c10dd::fuzz::Input in(data, size);
  const std::uint64_t missing = in.byte();
  const std::uint64_t window = in.byte();
  const std::string log(in.rest());
  const auto found = c10dd::store::record_behind(log, missing, window);
  if (!found) return 0;
  C10DD_ASSERT(*found > missing && *found - missing <= window);
  C10DD_ASSERT(c10dd::store::record_behind(log + std::string(100, '\0'), missing, window) == found);
  return 0;
}
