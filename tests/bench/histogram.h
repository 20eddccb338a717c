// SPDX-License-Identifier: Apache-2.0
// Counts durations in buckets that are at most 1/128 of their value wide, so that a percentile of
// millions of samples is exact to 0.4 %. The maximum is exact.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

namespace c10dd::bench {

class Histogram {
 public:
  void add(std::int64_t nanoseconds) {
    const auto value = static_cast<std::uint64_t>(std::max<std::int64_t>(nanoseconds, 0));
    ++buckets_[bucket_of(value)];
    ++count_;
    max_ = std::max(max_, value);
  }

  void add(const Histogram& other) {
    for (std::size_t i = 0; i < buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
    count_ += other.count_;
    max_ = std::max(max_, other.max_);
  }

  std::uint64_t count() const { return count_; }
  double max() const { return static_cast<double>(max_); }

  /// The duration that this share (0 to 1) of the samples does not exceed; 0 without samples.
  double quantile(double share) const {
    if (count_ == 0) return 0;
    const auto rank = static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(count_)));
    std::uint64_t seen = 0;
    for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
      seen += buckets_[bucket];
      if (seen >= std::max<std::uint64_t>(rank, 1)) return std::min(middle_of(bucket), max());
    }
    return max();
  }

 private:
  static constexpr unsigned kBits = 7;  // of a value that are kept
  static constexpr std::size_t kSteps = std::size_t{1} << kBits;

  // Below kSteps a bucket is one value. From there on each power of two has kSteps buckets.
  static std::size_t bucket_of(std::uint64_t value) {
    if (value < kSteps) return value;
    const auto shift = static_cast<unsigned>(std::bit_width(value)) - 1 - kBits;
    return kSteps * shift + (value >> shift);
  }
  static double middle_of(std::size_t bucket) {
    if (bucket < 2 * kSteps) return static_cast<double>(bucket);
    const auto shift = static_cast<int>(bucket / kSteps) - 1;
    const auto lowest = static_cast<double>(bucket % kSteps + kSteps);
    return std::ldexp(lowest + 0.5, shift);
  }

  std::vector<std::uint64_t> buckets_ = std::vector<std::uint64_t>((65 - kBits) * kSteps);
  std::uint64_t count_ = 0;
  std::uint64_t max_ = 0;
};

}  // namespace c10dd::bench
