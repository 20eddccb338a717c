// SPDX-License-Identifier: Apache-2.0
// Assigns the parameters to buckets, from last to first. Each dtype has at most one open bucket.
#include "ddp/buckets.h"

#include <algorithm>
#include <array>
#include <utility>

#include "collectives/work.h"

namespace c10dd::ddp {
namespace {

struct OpenBucket {
  Bucket bucket;
  bool first = true;  // of its dtype

  std::size_t bytes() const { return bucket.count * size_of(bucket.dtype); }
};

}  // namespace

std::vector<Bucket> plan_buckets(std::span<const GradientSize> parameters,
                                 const BucketLimits& limits) {
  if (limits.first_bytes == 0 || limits.bytes == 0) {
    throw InvalidArgument("bucket limits must be positive");
  }
  std::vector<Bucket> plan;
  std::array<OpenBucket, kDTypes> open;
  const auto close = [&plan](OpenBucket& one) {
    plan.push_back(std::exchange(one.bucket, {}));
    one.first = false;
  };
  for (std::size_t index = parameters.size(); index-- > 0;) {
    const GradientSize& parameter = parameters[index];
    OpenBucket& current = open[static_cast<std::size_t>(parameter.dtype)];
    const std::size_t bytes = parameter.count * size_of(parameter.dtype);
    const auto limit = [&] { return current.first ? limits.first_bytes : limits.bytes; };
    if (!current.bucket.parameters.empty() && current.bytes() + bytes > limit()) close(current);
    current.bucket.dtype = parameter.dtype;
    current.bucket.parameters.push_back(index);
    current.bucket.offsets.push_back(current.bucket.count);
    current.bucket.count += parameter.count;
    if (current.bytes() >= limit()) close(current);
  }
  // Buckets that have not reached their limit are still open: at most one of each dtype.
  for (OpenBucket& one : open) {
    if (!one.bucket.parameters.empty()) close(one);
  }
  // The backward pass goes from high to low indices, so a bucket is complete when the pass has
  // reached the lowest index in that bucket. Bucket::parameters is in descending order, so back()
  // is the lowest index.
  std::sort(plan.begin(), plan.end(), [](const Bucket& a, const Bucket& b) {
    return a.parameters.back() > b.parameters.back();
  });
  return plan;
}

}  // namespace c10dd::ddp
