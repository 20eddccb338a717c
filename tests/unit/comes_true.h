// SPDX-License-Identifier: Apache-2.0
// Lets a test wait for what another thread or process does, without a sleep.
#pragma once

#include <chrono>
#include <thread>

namespace c10dd::test {

/// Waits until the condition holds. Returns false after 60 s.
template <class Condition>
bool comes_true(Condition&& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace c10dd::test
