// SPDX-License-Identifier: Apache-2.0
// The median of measurements, and how well it is known.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace c10dd::bench {

struct Interval {
  double median = 0;
  double half_width = 0;  ///< of the interval that has the true median with 95 % probability
};

/// Needs no assumption about the distribution: the ends of the interval are measurements, chosen
/// by their ranks (the normal approximation of the sign test). Without measurements, all is 0.
inline Interval median_interval(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto count = static_cast<double>(values.size());
  const double reach = 1.96 * std::sqrt(count) / 2;
  const auto at = [&](double rank) {
    return values[static_cast<std::size_t>(std::clamp(rank, 0.0, count - 1))];
  };
  return {at((count - 1) / 2), (at(count / 2 + reach) - at(count / 2 - reach - 1)) / 2};
}

}  // namespace c10dd::bench
