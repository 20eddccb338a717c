// SPDX-License-Identifier: Apache-2.0
// Turns failures into the exceptions of client/errors.h.
#pragma once

#include <utility>
#include <vector>

#include "client/errors.h"
#include "protocol/ops.h"

namespace c10dd::client {

/// Convert between the missing ranks of a Failure and those of an exception.
std::vector<Missing> missing_of(const std::vector<MissingRank>& ranks);
std::vector<MissingRank> ranks_of(const std::vector<Missing>& missing);

/// Throws the exception of client/errors.h that belongs to the code of the failure.
[[noreturn]] void throw_failure(const Failure& reason);

/// Returns the body of a reply. If the reply is a failure, throws this failure.
template <class Body>
Body expect(Reply reply) {
  if (!reply) throw_failure(reply.error());
  return std::get<Body>(std::move(*reply));
}

}  // namespace c10dd::client
