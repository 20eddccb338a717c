// SPDX-License-Identifier: Apache-2.0
// One table, two indexes; erase() is the only way out.
#include "daemon/core/lifetimes.h"

#include "daemon/core/planted.h"

namespace c10dd::core {

void Lifetimes::put(const Bytes& key, const Life& life, TimePoint now) {
  if (entries_.empty() && life.endless()) return;
  if (planted(Planted::life_not_replaced) && entries_.contains(key)) return;
  erase(key);
  if (life.endless()) return;
  const TimePoint deadline = now + life.ttl;
  entries_[key] = {life, deadline};
  if (life.ttl > Duration::zero()) by_deadline_.emplace(deadline, key);
  if (life.owner != SessionId{}) by_owner_[life.owner].insert(key);
}

void Lifetimes::erase(std::string_view key) {
  if (entries_.empty()) return;
  const auto it = entries_.find(key);
  if (it == entries_.end()) return;
  by_deadline_.erase({it->second.deadline, it->first});
  const auto owner = by_owner_.find(it->second.life.owner);
  if (owner != by_owner_.end()) {
    owner->second.erase(it->first);
    if (owner->second.empty()) by_owner_.erase(owner);
  }
  entries_.erase(it);
}

Life Lifetimes::find(std::string_view key) const {
  if (entries_.empty()) return {};
  const auto it = entries_.find(key);
  return it == entries_.end() ? Life{} : it->second.life;
}

void Lifetimes::resume(TimePoint now) {
  by_deadline_.clear();
  for (auto& [key, entry] : entries_) {
    entry.deadline = now + entry.life.ttl;
    if (entry.life.ttl > Duration::zero()) by_deadline_.emplace(entry.deadline, key);
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
