// SPDX-License-Identifier: Apache-2.0
// Numbers that no other process has, for ids.
#pragma once

#include <cstdint>

namespace c10dd {

/// Returns 64 random bits from the system. Thread-safe.
std::uint64_t random_number();

}  // namespace c10dd
