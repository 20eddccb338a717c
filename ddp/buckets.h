// SPDX-License-Identifier: Apache-2.0
// Groups gradients into buckets. Each bucket is all-reduced by one collective. Equal inputs give
// equal plans, so all ranks make the same plan without communication.
// Uses only the standard library.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <c10dd/tensor.h>

namespace c10dd::ddp {

struct GradientSize {
  std::size_t count = 0;  ///< elements
  DType dtype = DType::float32;
};

/// The sizes in bytes at which a bucket is full. They must be above 0.
struct BucketLimits {
  /// Limit of the first bucket of each dtype. A small first bucket starts communication early.
  std::size_t first_bytes = std::size_t{1} << 20;
  std::size_t bytes = std::size_t{25} << 20;  ///< limit of all other buckets
};

/// The gradients that one collective reduces, one after the other in one array.
struct Bucket {
  DType dtype = DType::float32;
  std::size_t count = 0;                ///< elements of all gradients
  std::vector<std::size_t> parameters;  ///< indices in descending order
  std::vector<std::size_t> offsets;     ///< where each parameter begins in the bucket, in elements
};

/// Returns the buckets, in the order in which the backward pass fills them. Every parameter is in
/// exactly one bucket. Walks the parameters from last to first, as the backward pass does, and
/// keeps one bucket per dtype open. The limit of a bucket is `first_bytes` if the bucket is the
/// first of its dtype, otherwise `bytes`. Only a bucket with a single parameter can exceed its
/// limit. Throws InvalidArgument if a limit is 0. reducer.h names the source of this algorithm.
std::vector<Bucket> plan_buckets(std::span<const GradientSize> parameters,
                                 const BucketLimits& limits = {});

}  // namespace c10dd::ddp
