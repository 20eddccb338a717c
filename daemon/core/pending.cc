// SPDX-License-Identifier: Apache-2.0
// Three indexes over one table; take() is the only way out.
#include "daemon/core/pending.h"

namespace c10dd::core {

void Pending::add(Waiter waiter) {
  C10DD_ASSERT(!waiter.tokens.empty());
  const auto call = std::pair(waiter.session, waiter.sequence);
  if (const auto it = by_call_.find(call); it != by_call_.end()) take(it->second);
  const Id id = next_id_++;
  waiter.missing = 0;
  for (const Bytes& token : waiter.tokens) {
    if (by_token_[token].insert(id).second) ++waiter.missing;  // a key may be named twice
  }
  by_deadline_.emplace(waiter.deadline, id);
  by_call_.emplace(call, id);
  waiters_.emplace(id, std::move(waiter));
}

std::vector<Pending::Waiter> Pending::fire(const Bytes& token) {
  std::vector<Waiter> released;
  const auto node = by_token_.extract(token);
  if (node.empty()) return released;
  for (const Id id : node.mapped()) {
    if (--waiters_.at(id).missing == 0) released.push_back(take(id));
  }
  return released;
}

std::vector<Pending::Waiter> Pending::expire(TimePoint now) {
  std::vector<Waiter> expired;
  while (!by_deadline_.empty() && by_deadline_.begin()->first <= now) {
    expired.push_back(take(by_deadline_.begin()->second));
  }
  return expired;
}

std::vector<Pending::Waiter> Pending::drop(const SessionId& session) {
  std::vector<Waiter> dropped;
  auto it = by_call_.lower_bound({session, 0});
  while (it != by_call_.end() && it->first.first == session) {
    const Id id = it->second;
    ++it;
    dropped.push_back(take(id));
  }
  return dropped;
}

std::optional<TimePoint> Pending::next_deadline() const {
  if (by_deadline_.empty()) return std::nullopt;
  return by_deadline_.begin()->first;
}

Pending::Waiter Pending::take(Id id) {
  const auto it = waiters_.find(id);
  Waiter waiter = std::move(it->second);
  waiters_.erase(it);
  by_deadline_.erase({waiter.deadline, id});
  by_call_.erase({waiter.session, waiter.sequence});
  for (const Bytes& token : waiter.tokens) {
    const auto index = by_token_.find(token);
    if (index == by_token_.end()) continue;
    index->second.erase(id);
    if (index->second.empty()) by_token_.erase(index);
  }
  return waiter;
}

}  // namespace c10dd::core
