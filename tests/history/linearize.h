// SPDX-License-Identifier: Apache-2.0
// Decides whether the calls on one key could have been made one at a time: Wing and Gong's search
// with Lowe's memory of visited pairs (calls made, state). Does not use revisions, and so does not
// rely on them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/history/op.h"

namespace c10dd::history {

/// A call on one key. The search uses the fields of its result only if `known`.
struct KeyCall {
  enum class Kind : std::uint8_t {
    set,
    get,
    exists,
    add,
    compare_set,
    append,
    remove,
    read,
    reaches
  };

  Kind kind = Kind::get;
  Bytes input = {};        ///< of set, compare_set, append
  Bytes expected = {};     ///< of compare_set
  std::int64_t delta = 0;  ///< of add; of reaches: the number that the key has at least
  bool lenient = false;    ///< of add: reads the value as strtoll does
  std::uint64_t invoked = 0;
  std::uint64_t answered = 0;  ///< 0: never
  bool known = false;          ///< if false, may take effect any time after `invoked`, or never

  bool yes = false;         ///< found, existed, swapped
  bool refused = false;     ///< an add to a value that is not a number
  Bytes value = {};         ///< of get and read (empty: perhaps missing), or what compare_set found
  std::int64_t number = 0;  ///< sum, or length after append

  // The search does not look at these.
  Revision revision = 0;   ///< of the value that was set or got; 0: the answer does not say
  const Op* op = nullptr;  ///< whose it is
};

enum class Verdict : std::uint8_t { linearizable, violated, undecided };

/// Returns the value as a number; 0 if the key is missing, nothing if the value is not a number.
std::optional<std::int64_t> number_of(const Bytes* value);
/// Returns the number with which the value begins, as strtoll reads it; 0 if the key is missing,
/// nothing if there is none, or if it does not fit.
std::optional<std::int64_t> number_at_start(const Bytes* value);

/// Decides by search. Gives up, and returns undecided, after `patience` steps.
Verdict linearize(std::vector<KeyCall> calls, std::uint64_t patience = 2'000'000);

}  // namespace c10dd::history
