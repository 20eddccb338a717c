// SPDX-License-Identifier: Apache-2.0
// How gradients are grouped into buckets, each of which is all-reduced by one collective. A pure
// function: equal inputs give equal plans, so the ranks need no communication to agree. Standard
// library only.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <c10dd/tensor.h>

namespace c10dd::ddp {

/// The size of one parameter's gradient.
struct GradientSize {
  std::size_t count = 0;  ///< elements
  DType dtype = DType::float32;
};

/// Sizes at which a bucket is full, in bytes; above 0.
struct BucketLimits {
  /// Of the first bucket of each dtype. Smaller, so that communication starts early.
  std::size_t first_bytes = std::size_t{1} << 20;
  std::size_t bytes = std::size_t{25} << 20;  ///< of all other buckets
};

/// The gradients that one collective carries, one after the other.
struct Bucket {
  DType dtype = DType::float32;
  std::size_t count = 0;                ///< elements of all gradients
  std::vector<std::size_t> parameters;  ///< their indices, descending, as backward reaches them
  std::vector<std::size_t> offsets;     ///< where each begins in the bucket, in elements
};

/// Returns the buckets, in the order in which backward fills them; every parameter is in exactly
/// one. Walks the parameters from last to first, as backward does, and fills one bucket per dtype
/// at a time up to its limit: `first_bytes` for the first of a dtype, then `bytes`. Only a
/// parameter that is larger than the limit makes a bucket exceed it. Throws InvalidArgument if a
/// limit is 0. reducer.h names the source of this algorithm.
std::vector<Bucket> plan_buckets(std::span<const GradientSize> parameters,
                                 const BucketLimits& limits = {});

}  // namespace c10dd::ddp
