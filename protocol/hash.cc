// SPDX-License-Identifier: Apache-2.0
#include "protocol/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace c10dd {

std::uint64_t hash_of(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

}  // namespace c10dd
