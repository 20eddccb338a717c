// SPDX-License-Identifier: Apache-2.0
// A hash function for tables in memory.
#pragma once

#include <cstdint>
#include <string_view>

namespace c10dd {

/// Returns the XXH3 hash of the bytes. It may differ in other versions of the library, so it is
/// never stored or sent. A client can make keys with equal hashes on purpose.
std::uint64_t hash_of(std::string_view bytes);

}  // namespace c10dd
