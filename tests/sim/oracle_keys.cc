// SPDX-License-Identifier: Apache-2.0
// Each key on its own is linearizable.
#include "tests/history/keys.h"
#include "tests/sim/oracles.h"

namespace c10dd::sim {
namespace {

/// Returns true for keys that only calls change, one at a time. Other keys expire or change in
/// groups.
bool is_plain(const Bytes& key) { return key.starts_with('s') || key.starts_with('n'); }

}  // namespace

OptionalViolation judge_keys(const Records& records, std::uint64_t* undecided) {
  history::Searched searched;
  for (const auto& [job, ops] : records.calls()) {
    history::CallsByKey keys;
    for (const Op* op : ops) history::take_apart(*op, is_plain, keys);
    for (const auto& [key, calls] : keys) {
      const auto findings = history::judge_order_of_calls(key, calls, searched);
      if (undecided != nullptr) *undecided = searched.undecided;
      if (auto bad = violation_of("linearizable", job, findings)) return bad;
    }
  }
  return std::nullopt;
}

}  // namespace c10dd::sim
