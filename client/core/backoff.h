// SPDX-License-Identifier: Apache-2.0
// When to try again: at once after a loss, then with full jitter up to a doubling bound, so that
// ten thousand clients of a restarted daemon do not come back in step. Equal seeds, equal delays.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "protocol/types.h"

namespace c10dd::client {

/// The output function of splitmix64.
constexpr std::uint64_t mixed(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

class Backoff {
 public:
  static constexpr Duration kFirst = std::chrono::milliseconds(20);
  static constexpr Duration kBase = std::chrono::milliseconds(50);
  static constexpr Duration kCap = std::chrono::seconds(1);

  explicit Backoff(std::uint64_t seed) : state_(seed) {}

  /// How long to wait before the next attempt: uniform from 0 to a bound that grows with each.
  Duration next() {
    const Duration bound = attempts_ == 0 ? kFirst : std::min(kCap, kBase * (1 << (attempts_ - 1)));
    attempts_ = std::min(attempts_ + 1, 8U);
    return Duration(random() % static_cast<std::uint64_t>(bound.count() + 1));
  }

  /// The peer works: the next loss is a first one.
  void reset() { attempts_ = 0; }

 private:
  /// splitmix64: its state is its seed, and every seed is good.
  std::uint64_t random() { return mixed(state_ += 0x9E3779B97F4A7C15); }

  std::uint64_t state_;
  unsigned attempts_ = 0;
};

}  // namespace c10dd::client
