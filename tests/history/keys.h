// SPDX-License-Identifier: Apache-2.0
// The judges of keys. Each judges the calls on one key, which were taken from a history.
#pragma once

#include <functional>
#include <map>

#include "tests/history/found_fault.h"
#include "tests/history/linearize.h"

namespace c10dd::history {

using KeyCalls = std::vector<KeyCall>;
using CallsByKey = std::map<Bytes, KeyCalls>;
/// Returns true if the key is judged. Only keys that nothing but calls can change are judged.
using Wanted = std::function<bool(const Bytes& key)>;

/// Adds the effects of a call to the calls of each key. For a transaction: only its sets and adds.
void take_apart(const Op& op, const Wanted& wanted, CallsByKey& calls);

/// Number of keys for which an order was searched, and of those whose search was given up.
struct Searched {
  std::uint64_t keys = 0;
  std::uint64_t undecided = 0;
};

/// Checks by search, without the revisions, that the calls could have been made one at a time.
FoundFaults judge_order_of_calls(const Bytes& key, const KeyCalls& calls, Searched& searched);

/// For keys with too many calls for a search, on which all calls are gets or sets of unique values.
/// Checks that each value that was got had been set, and that revisions follow time.
FoundFaults judge_register(const Bytes& key, const KeyCalls& calls);

/// For such keys on which all calls are gets or add 1. Checks that each add counts once, and that
/// sums follow time. The last get returns the sum at the end.
FoundFaults judge_sum(const Bytes& key, const KeyCalls& calls);

/// For such keys on which all calls are gets or append unique words that end with a semicolon.
/// Checks that the last get has each word once, at the position that the reply to its append tells.
FoundFaults judge_words(const Bytes& key, const KeyCalls& calls);

/// For such keys on which all calls are gets or compare_sets of unique values. Checks that the
/// swaps form a chain from the empty value to the value of the last get.
FoundFaults judge_chain(const Bytes& key, const KeyCalls& calls);

}  // namespace c10dd::history
