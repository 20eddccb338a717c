// SPDX-License-Identifier: Apache-2.0
// The only source of randomness in a simulation: equal seeds give equal numbers on every machine.
#pragma once

#include <cstdint>

#include "protocol/types.h"

namespace c10dd::sim {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  /// splitmix64: its state is its seed, and every seed is good.
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }

  /// Returns a uniform number from 0 to n - 1.
  std::uint64_t below(std::uint64_t n) { return next() % n; }
  bool chance(std::uint64_t percent) { return below(100) < percent; }

  Duration between(Duration least, Duration most) {
    return least + Duration(below(static_cast<std::uint64_t>((most - least).count()) + 1));
  }

  /// Returns a delay, mostly near `least` and rarely near `most`, as machines and networks have.
  Duration skewed(Duration least, Duration most) {
    return between(least, chance(90) ? least + (most - least) / 10 : most);
  }

  template <class List>
  auto& pick(List& list) {
    return list[below(list.size())];
  }

 private:
  std::uint64_t state_;
};

}  // namespace c10dd::sim
