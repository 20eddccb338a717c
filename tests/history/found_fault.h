// SPDX-License-Identifier: Apache-2.0
// A promise that a judge has found broken in a history: which kind, and the evidence.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tests/history/op.h"

namespace c10dd::history {

enum class Fault : std::uint8_t {
  lost,    ///< an acknowledged change is missing, or a later read did not see it
  twice,   ///< a change was applied twice, an item was popped twice
  failed,  ///< a call ended in an error, or not at all
  order,   ///< no order of the calls explains their replies
  torn,    ///< half of an atomic change was seen
  watch,   ///< a watch left out, repeated or made up a change
  other,
};
inline constexpr std::size_t kFaults = 7;
inline constexpr std::string_view kFaultNames[kFaults] = {
    "lost", "applied twice", "failed calls", "out of order", "torn", "watch gaps", "other faults"};

struct FoundFault {
  Fault fault = Fault::other;
  std::string text;
  Ops calls = {};           ///< the evidence
  std::uint64_t count = 1;  ///< number of changes or items for which the promise is broken
};

using FoundFaults = std::vector<FoundFault>;

}  // namespace c10dd::history
