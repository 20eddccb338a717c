// SPDX-License-Identifier: Apache-2.0
// From results to exceptions: the one place where the SDK throws what the daemon answered.
#pragma once

#include <utility>
#include <vector>

#include "client/errors.h"
#include "protocol/ops.h"

namespace c10dd::client {

/// Between the ranks of a Failure and those that exceptions carry.
std::vector<Missing> missing_of(const std::vector<MissingRank>& ranks);
std::vector<MissingRank> ranks_of(const std::vector<Missing>& missing);

/// Throws the type of client/errors.h that fits the code.
[[noreturn]] void throw_failure(const Failure& reason);

/// The body of an answer, or its failure thrown.
template <class Body>
Body expect(Reply reply) {
  if (!reply) throw_failure(reply.error());
  return std::get<Body>(std::move(*reply));
}

}  // namespace c10dd::client
