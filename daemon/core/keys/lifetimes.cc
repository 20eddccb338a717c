// SPDX-License-Identifier: Apache-2.0
// Only erase() removes entries, because the table and its two indexes must stay consistent.
#include "daemon/core/keys/lifetimes.h"

#include "daemon/core/planted.h"

namespace c10dd::core {

void Lifetimes::put(std::string_view key, const Expiry& expiry, TimePoint now) {
  if (expiring_.empty() && expiry.endless()) return;
  if (planted(Planted::expiry_not_replaced) && expiring_.contains(key)) return;
  erase(key);
  if (expiry.endless()) return;
  const TimePoint deadline = now + expiry.ttl;
  expiring_.insert_or_assign(Bytes(key), ExpiringKey{expiry, deadline});
  if (expiry.ttl > Duration::zero()) by_deadline_.emplace(deadline, key);
  if (expiry.owner != SessionId{}) by_owner_[expiry.owner].emplace(key);
}

void Lifetimes::erase(std::string_view key) {
  if (expiring_.empty()) return;
  const auto it = expiring_.find(key);
  if (it == expiring_.end()) return;
  by_deadline_.erase({it->second.deadline, it->first});
  const auto owner = by_owner_.find(it->second.expiry.owner);
  if (owner != by_owner_.end()) {
    owner->second.erase(it->first);
    if (owner->second.empty()) by_owner_.erase(owner);
  }
  expiring_.erase(it);
}

Expiry Lifetimes::find(std::string_view key) const {
  if (expiring_.empty()) return {};
  const auto it = expiring_.find(key);
  return it == expiring_.end() ? Expiry{} : it->second.expiry;
}

void Lifetimes::resume(TimePoint now) {
  by_deadline_.clear();
  for (auto& [key, entry] : expiring_) {
    entry.deadline = now + entry.expiry.ttl;
    if (entry.expiry.ttl > Duration::zero()) by_deadline_.emplace(entry.deadline, key);
  }
}

std::vector<Bytes> Lifetimes::due(TimePoint now, std::size_t limit) const {
  std::vector<Bytes> keys;
  for (const auto& [deadline, key] : by_deadline_) {
    if (deadline > now || keys.size() == limit) break;
    keys.push_back(key);
  }
  return keys;
}

std::optional<TimePoint> Lifetimes::next_deadline() const {
  if (by_deadline_.empty()) return std::nullopt;
  return by_deadline_.begin()->first;
}

std::vector<Bytes> Lifetimes::owned_by(const SessionId& session) const {
  const auto it = by_owner_.find(session);
  if (it == by_owner_.end()) return {};
  return {it->second.begin(), it->second.end()};
}

std::vector<SessionId> Lifetimes::owners() const {
  std::vector<SessionId> owners;
  for (const auto& [owner, keys] : by_owner_) owners.push_back(owner);
  return owners;
}

}  // namespace c10dd::core
