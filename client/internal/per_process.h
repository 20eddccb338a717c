// SPDX-License-Identifier: Apache-2.0
// of_this_process(): an object that a process has once, also after fork().
#pragma once

#include <atomic>

#include "client/internal/fork_guard.h"

namespace c10dd::client {

/// Returns this process's T, which is made at the first call and never destroyed, because threads
/// may use it while the process exits. In a forked child the locks of the parent's T may be held
/// for ever, so the child gets a T of its own. Thread-safe.
template <class T>
T& of_this_process() {
  struct Owned {
    T object;
    HomeProcess home;
  };
  static std::atomic<Owned*> current = new Owned;
  Owned* owned = current.load(std::memory_order_acquire);
  if (owned->home.forked()) {
    auto* const fresh = new Owned;
    if (current.compare_exchange_strong(owned, fresh)) return fresh->object;
    delete fresh;
  }
  return owned->object;
}

}  // namespace c10dd::client
