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

/// Returns a text for errors that lists the arguments that must be equal on all ranks, such as
/// "all_reduce 3 of 1000 float32 sum".
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
