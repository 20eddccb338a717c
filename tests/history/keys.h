// SPDX-License-Identifier: Apache-2.0
// The judges of keys. Each looks at one key alone: the calls of a history, taken apart by key.
#pragma once

#include <functional>
#include <map>

#include "tests/history/finding.h"
#include "tests/history/linearize.h"

namespace c10dd::history {

using KeyCalls = std::vector<KeyCall>;
using CallsByKey = std::map<Bytes, KeyCalls>;
/// Which keys are judged: those that only calls change.
using Wanted = std::function<bool(const Bytes& key)>;

/// Takes a call apart. Of a transaction only what it sets and adds is taken.
void take_apart(const Op& op, const Wanted& wanted, CallsByKey& calls);

/// How often the search for an order was made, and given up.
struct Searched {
  std::uint64_t keys = 0;
  std::uint64_t undecided = 0;
};

/// The calls could have been made one at a time: by search, without looking at revisions.
Findings judge_order_of_calls(const Bytes& key, const KeyCalls& calls, Searched& searched);

/// For keys with too many calls for a search, which are only set to values of their own, and got:
/// what was got was set, and revisions follow time.
Findings judge_register(const Bytes& key, const KeyCalls& calls);

/// Likewise for keys that are only got, and to which every call adds 1: each add counts once, and
/// sums follow time. The last get says what is there at the end.
Findings judge_sum(const Bytes& key, const KeyCalls& calls);

/// Likewise for keys that are only got, and to which calls append words of their own, each with a
/// semicolon at its end: each word is in the last get once, where its append was told.
Findings judge_words(const Bytes& key, const KeyCalls& calls);

/// Likewise for keys on which calls only compare_set values of their own: the swaps lead from the
/// empty value to the last get, each from the one before.
Findings judge_chain(const Bytes& key, const KeyCalls& calls);

}  // namespace c10dd::history
