// SPDX-License-Identifier: Apache-2.0
#include "daemon/net/freed_memory.h"

/// Part of jemalloc's interface; null with another allocator.
extern "C" [[gnu::weak]] int mallctl(const char* name, void* old, std::size_t* old_size, void* set,
                                     std::size_t set_size);

namespace c10dd::daemon {

void return_freed_memory() {
  if (&mallctl == nullptr) return;
  mallctl("arena.4096.purge", nullptr, nullptr, nullptr, 0);  // 4096: all arenas
}

}  // namespace c10dd::daemon
