// SPDX-License-Identifier: Apache-2.0
// How gradients are grouped into the messages that are all-reduced. Pure: equal inputs give equal
// plans, so all ranks agree without talking. Standard library only.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <c10dd/tensor.h>

namespace c10dd::ddp {

/// What the plan needs to know of a parameter.
struct GradientSize {
  std::size_t count = 0;
  DType dtype = DType::float32;
};

struct BucketLimits {
  std::size_t first_bytes = std::size_t{1} << 20;  ///< small: communication starts early
  std::size_t bytes = std::size_t{25} << 20;
};

struct Bucket {
  DType dtype = DType::float32;
  std::size_t count = 0;                ///< elements
  std::vector<std::size_t> parameters;  ///< indices, in the order in which backward reaches them
  std::vector<std::size_t> offsets;     ///< of each, in elements
};

/// Walks the parameters from last to first, as backward does, and fills one bucket per dtype at a
/// time up to its limit: `first_bytes` for the first of a dtype, then `bytes`. A limit is exceeded
/// only by a parameter that is larger than it. Buckets come in the order in which backward fills
/// them; every parameter is in exactly one. Throws InvalidArgument for a limit of zero.
std::vector<Bucket> plan_buckets(std::span<const GradientSize> parameters,
                                 const BucketLimits& limits = {});

}  // namespace c10dd::ddp
