// SPDX-License-Identifier: Apache-2.0
// What must be equal on all ranks that issue an operation, and the failures if it is not.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/operation.h"
#include "protocol/error.h"

namespace c10dd::collectives {

/// Returns a hash of the arguments that must be equal on all ranks, without the sequence. With
/// lists that are not reduced, the sizes of the tensors do not count.
std::uint64_t hash_of(const Operation& operation);

/// The arguments of an operation that texts tell. Those of a collective are equal on all ranks that
/// have issued the same one: sizes that may differ between ranks are left out.
struct ToldArguments {
  Collective collective = Collective::barrier;
  bool has_type = false;
  DType dtype = DType::float32;
  ReduceOp::Kind reduce = ReduceOp::sum;  ///< if the operation reduces
  std::uint64_t count = 0;                ///< if has_type
  Rank rank = 0;                          ///< the root, or the peer of a message
  std::uint32_t tag = 0;                  ///< of a message
};
ToldArguments told_arguments(const Operation& operation);

/// The same in three numbers, for records that are written without a lock.
struct PackedArguments {
  std::uint64_t rest = 0;
  std::uint64_t count = 0;
  std::uint64_t tag = 0;
};
PackedArguments packed(const ToldArguments& told);
ToldArguments unpacked(const PackedArguments& packed);

/// Returns for example "of 1000 float32 sum", "of 8 int64 from rank 1", or "of 8 int64 to rank 3
/// with tag 7"; empty for a barrier.
std::string text_of(const ToldArguments& arguments);

/// Returns the text that names an operation in errors, such as "all_reduce 3 of 1000 float32 sum",
/// "broadcast 0 of 8 int64 from rank 1" or "barrier 7".
std::string text_of(const Operation& operation);

/// Returns the failure if the ranks `different` have issued `theirs`, but rank 0 has issued
/// `first`, see text_of().
Failure issued_differently(const std::vector<Rank>& different, const std::string& theirs,
                           const std::string& first);

/// Returns the failure if rank `from` has `sent` elements for rank `to`, but that rank has a tensor
/// of `room` elements for them.
Failure sizes_differ(const Operation& operation, Rank from, std::size_t sent, Rank to,
                     std::size_t room);

}  // namespace c10dd::collectives
