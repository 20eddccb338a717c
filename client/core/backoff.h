// SPDX-License-Identifier: Apache-2.0
// Random delays between attempts to connect. Their upper bound starts at 20 ms and grows to 1 s, so
// that ten thousand clients of a restarted daemon do not reconnect at the same moment. Equal seeds
// give equal delays. Pure.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "protocol/types.h"

namespace c10dd::client {

/// Mixes the bits of `z`. This is the output function of the generator splitmix64.
constexpr std::uint64_t mixed(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

class Backoff {
 public:
  static constexpr Duration kFirst = std::chrono::milliseconds(20);  // bound of the first delay
  static constexpr Duration kBase = std::chrono::milliseconds(50);   // of the second, then doubled
  static constexpr Duration kCap = std::chrono::seconds(1);

  explicit Backoff(std::uint64_t seed) : state_(seed) {}

  /// Returns how long to wait before the next attempt: a random time between 0 and a bound that
  /// grows with each call.
  Duration next() {
    const Duration bound = attempts_ == 0 ? kFirst : std::min(kCap, kBase * (1 << (attempts_ - 1)));
    attempts_ = std::min(attempts_ + 1, 8U);
    return share_of(bound);
  }

  /// Returns a random time between 0 and kFirst, for an attempt that need not wait. Does not change
  /// the bound.
  Duration jitter() { return share_of(kFirst); }

  /// Returns a random time between 0 and `bound`. Does not change the bound of next().
  Duration share_of(Duration bound) {
    return Duration(random() % static_cast<std::uint64_t>(bound.count() + 1));
  }

  /// Sets the bound back to kFirst. Must be called when the daemon has replied.
  void reset() { attempts_ = 0; }

 private:
  /// The generator splitmix64. Its state is one number, and any number is a good seed.
  std::uint64_t random() { return mixed(state_ += 0x9E3779B97F4A7C15); }

  std::uint64_t state_;
  unsigned attempts_ = 0;
};

}  // namespace c10dd::client
