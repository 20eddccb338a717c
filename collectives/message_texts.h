// SPDX-License-Identifier: Apache-2.0
// The failures of sends and receives, which all backends word alike.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>

#include "collectives/operation.h"
#include "protocol/error.h"
#include "protocol/format.h"
#include "protocol/wording.h"

namespace c10dd::collectives {

/// Returns whether a message of `count` elements of `dtype` fits the tensor.
inline bool fits(std::size_t count, DType dtype, const Tensor& tensor) {
  return count <= tensor.count && (dtype == tensor.dtype || count == 0);
}

/// Returns the failure of both sides if the message does not fit the tensor of recv().
inline Failure does_not_fit(Rank source, Rank receiver, std::uint32_t tag, std::size_t sent,
                            DType sent_type, std::size_t room, DType room_type) {
  return failure(Code::size_mismatch,
                 "the message of {} {} elements from rank {} to rank {}, tag {}, does not fit the "
                 "tensor of recv, which has {} {} elements",
                 sent, name_of(sent_type), source, receiver, tag, room, name_of(room_type));
}

/// Returns a text such as "recv 3 from rank 1, tag 0".
inline std::string message_text(const Operation& operation) {
  const bool receives = operation.collective == Collective::recv;
  return format(
      "{} {} {} {}, {}", name_of(operation.collective), operation.sequence,
      receives ? "from" : "to",
      operation.peer == kAnyRank ? std::string("any rank") : format("rank {}", operation.peer),
      operation.tag == kAnyTag ? std::string("any tag") : format("tag {}", operation.tag));
}

/// Returns the failure of a send or recv at its deadline, without the list of missing ranks.
inline Failure message_timed_out(const Operation& operation) {
  return failure(Code::timed_out, "{} timed out after {}: {}", message_text(operation),
                 human(operation.timeout),
                 operation.collective == Collective::recv ? "no matching message arrived"
                                                          : "the peer did not receive it");
}

/// Finds the earliest deadline of several messages, and the failure of one that has passed it.
struct MessageDeadlines {
  using TimePoint = std::chrono::steady_clock::time_point;

  TimePoint now;
  TimePoint next = TimePoint::max();
  std::optional<Failure> late = {};

  /// Looks at one message, which waits for the rank `awaited`. `missing` returns the MissingRank of
  /// a rank.
  template <class Missing>
  void add(const Operation& operation, Rank awaited, Missing missing) {
    next = std::min(next, operation.deadline);
    if (operation.deadline > now || late) return;
    late = message_timed_out(operation);
    if (awaited != kAnyRank) late->missing.push_back(missing(awaited));
  }
};

}  // namespace c10dd::collectives
