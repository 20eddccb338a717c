// SPDX-License-Identifier: Apache-2.0
// Whether a history of calls on one key could have been made one at a time: Wing and Gong's search
// with Lowe's memory of (calls made, state). Knows nothing of revisions, so it judges without
// trusting them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/history/op.h"

namespace c10dd::history {

/// A call on one key. What it was told is looked at only if `known`.
struct KeyCall {
  enum class Kind : std::uint8_t { set, get, exists, add, compare_set, append, remove };

  Kind kind = Kind::get;
  Bytes input = {};     ///< of set, compare_set, append
  Bytes expected = {};  ///< of compare_set
  std::int64_t delta = 0;
  std::uint64_t invoked = 0;
  std::uint64_t answered = 0;  ///< 0: never
  bool known = false;          ///< unknown: may have been made at any time since, or never

  bool yes = false;         ///< found, existed, swapped
  bool refused = false;     ///< an add to what is no number
  Bytes value = {};         ///< of get, or what compare_set found
  std::int64_t number = 0;  ///< sum, or length after append

  // The search does not look at these.
  Revision revision = 0;   ///< of the value that was set or got; 0: the answer does not say
  const Op* op = nullptr;  ///< whose it is
};

enum class Verdict : std::uint8_t { linearizable, violated, undecided };

/// The value as a number, a missing one is 0; nothing if it is no number.
std::optional<std::int64_t> number_of(const Bytes* value);

/// undecided after `patience` steps of the search.
Verdict linearize(std::vector<KeyCall> calls, std::uint64_t patience = 2'000'000);

}  // namespace c10dd::history
