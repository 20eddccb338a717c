// SPDX-License-Identifier: Apache-2.0
// Keeps the waiters in one table with three indexes. Every removal of a waiter goes through take().
#include "daemon/core/pending.h"

#include <cstring>

#include "daemon/core/planted.h"

namespace c10dd::core {
namespace {

constexpr char kCounter = 'n';
constexpr char kPrefix = 'p';

std::int64_t number_of_counter(std::string_view token) {
  std::int64_t number = 0;
  std::memcpy(&number, token.data() + 1, sizeof number);
  return number;
}

/// Calls f(key, token) for each key of the request that a token stands for. `has(key, of_token)`
/// says whether it is this key; the tokens are in the order of the keys.
template <class Has, class F>
void for_each_key(Request& request, const std::vector<Blob>& tokens, Has&& has, F&& f) {
  const auto first = [&](auto& key, std::string_view of_token) {
    if (has(key, of_token)) f(key, of_token);
  };
  const auto all = [&](std::vector<Bytes>& keys) {
    auto token = tokens.begin();
    for (Bytes& key : keys) {
      if (token == tokens.end()) return;
      if (!has(key, key_of_token(*token))) continue;
      f(key, key_of_token(*token));
      ++token;
    }
  };
  const std::string_view token = tokens.front();
  if (auto* get = std::get_if<Get>(&request)) return first(get->key, key_of_token(token));
  if (auto* wait = std::get_if<Wait>(&request)) return all(wait->keys);
  if (auto* get = std::get_if<MultiGet>(&request)) return all(get->keys);
  if (auto* wait = std::get_if<WaitCounter>(&request)) {
    return first(wait->key, key_of_counter(token));
  }
  if (auto* watch = std::get_if<Watch>(&request)) return first(watch->key, key_of_token(token));
  if (auto* pop = std::get_if<QueuePop>(&request)) return first(pop->key, key_of_token(token));
}

/// Takes from the request the keys that the tokens have, so that each is in memory once.
void take_keys(Pending::Waiter& waiter) {
  for_each_key(
      waiter.request, waiter.tokens,
      [](std::string_view key, std::string_view of_token) { return key == of_token; },
      [](auto& key, std::string_view) { key = {}; });
}

/// Undoes take_keys(): a key is never empty but for the prefix of a watch, which stays empty.
void give_keys_back(Pending::Waiter& waiter) {
  for_each_key(
      waiter.request, waiter.tokens,
      [](std::string_view key, std::string_view) { return key.empty(); },
      [](auto& key, std::string_view of_token) { key = of_token; });
}

}  // namespace

void Pending::add(Waiter waiter) {
  C10DD_ASSERT(!waiter.tokens.empty());
  const auto call = std::pair(waiter.session, waiter.sequence);
  if (const auto it = by_call_.find(call); it != by_call_.end()) take(it->second);
  const Id id = next_id_++;
  waiter.missing = 0;
  for (Blob& token : waiter.tokens) {
    const auto entry = by_token_.try_emplace(token).first;
    token = entry->first;
    if (entry->second.insert(id).second) ++waiter.missing;  // a key may be named twice
    index(token);
  }
  take_keys(waiter);
  weight_ += waiter.weight;
  if (waiter.observes) ++observed_;
  if (waiter.deadline != TimePoint::max()) by_deadline_.emplace(waiter.deadline, id);
  by_call_.emplace(call, id);
  waiters_.emplace(id, std::move(waiter));
}

std::vector<Pending::Waiter> Pending::fire(std::string_view token) {
  std::vector<Waiter> released;
  const auto found = by_token_.find(token);
  if (found == by_token_.end()) return released;
  const auto node = by_token_.extract(found);
  released.reserve(node.mapped().size());
  for (const Id id : node.mapped()) {
    if (planted(Planted::waiter_missed) && !released.empty()) break;
    if (--waiters_.at(id).missing == 0) released.push_back(take(id));
  }
  return released;
}

std::optional<Pending::Waiter> Pending::fire_one(std::string_view token) {
  const auto it = by_token_.find(token);
  if (it == by_token_.end()) return std::nullopt;
  const Id id = *it->second.begin();
  C10DD_ASSERT(waiters_.at(id).missing == 1);
  return take(id);
}

std::optional<Pending::Waiter> Pending::fire_one_reserving(std::string_view token) {
  const auto it = by_token_.find(token);
  if (it == by_token_.end()) return std::nullopt;
  for (const Id id : it->second) {
    if (waiters_.at(id).reserves) return take(id);
  }
  return std::nullopt;
}

void Pending::prefix_tokens(std::string_view key, std::vector<Bytes>& out) const {
  for (const auto& [size, count] : prefix_sizes_) {
    if (size > key.size()) return;  // sizes ascend
    Bytes token = prefix_token(key.substr(0, size));
    if (waits_for(token)) out.push_back(std::move(token));
  }
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

std::size_t Pending::of(const SessionId& session, std::size_t most, std::uint64_t without) const {
  std::size_t count = 0;
  for (auto it = by_call_.lower_bound({session, 0});
       it != by_call_.end() && it->first.first == session && count < most; ++it) {
    if (it->first.second != without) ++count;
  }
  return count;
}

std::optional<Pending::Waiter> Pending::drop(const SessionId& session, std::uint64_t sequence) {
  const auto it = by_call_.find({session, sequence});
  if (it == by_call_.end()) return std::nullopt;
  return take(it->second);
}

/// If only waiters without a deadline are blocked, returns TimePoint::max(): job time advances only
/// while there is a deadline, and how long they have waited is reported.
std::optional<TimePoint> Pending::next_deadline() const {
  if (waiters_.empty()) return std::nullopt;
  if (by_deadline_.empty()) return TimePoint::max();
  return by_deadline_.begin()->first;
}

Pending::Waiter Pending::take(Id id) {
  const auto it = waiters_.find(id);
  Waiter waiter = std::move(it->second);
  waiters_.erase(it);
  by_deadline_.erase({waiter.deadline, id});
  by_call_.erase({waiter.session, waiter.sequence});
  if (!planted(Planted::weight_kept)) weight_ -= waiter.weight;
  if (waiter.observes) --observed_;
  give_keys_back(waiter);
  std::erase_if(waiter.tokens, [&](const Blob& token) {
    unindex(token);
    const auto found = by_token_.find(token);
    if (found == by_token_.end()) return true;
    const bool fired = found->second.erase(id) == 0;
    if (found->second.empty()) by_token_.erase(found);
    return fired;
  });
  return waiter;
}

// ---- prefixes and counters ---------------------------------------------------------------------

Bytes Pending::counter_token(std::string_view key, std::int64_t at_least) {
  Bytes token(1 + sizeof at_least, kCounter);
  std::memcpy(token.data() + 1, &at_least, sizeof at_least);
  return token.append(key);
}

void Pending::counter_tokens(std::string_view key, std::int64_t number,
                             std::vector<Bytes>& out) const {
  const auto found = counters_.find(key);
  if (found == counters_.end()) return;
  for (const auto& [at_least, waiters] : found->second) {
    if (at_least > number) return;  // the numbers ascend
    out.push_back(counter_token(key, at_least));
  }
}

/// Adds a token of one waiter to the table of prefixes or counters, if it belongs there.
void Pending::index(std::string_view token) {
  if (token.front() == kPrefix) ++prefix_sizes_[token.size() - 1];
  if (token.front() == kCounter) {
    ++counters_[Bytes(key_of_counter(token))][number_of_counter(token)];
  }
}

/// Undoes index().
void Pending::unindex(std::string_view token) {
  if (token.front() == kPrefix && --prefix_sizes_.at(token.size() - 1) == 0) {
    prefix_sizes_.erase(token.size() - 1);
  }
  if (token.front() != kCounter) return;
  const auto key = counters_.find(key_of_counter(token));
  const auto number = key->second.find(number_of_counter(token));
  if (--number->second == 0) key->second.erase(number);
  if (key->second.empty()) counters_.erase(key);
}

AuditResult Pending::audit() const {
  std::size_t weight = 0;
  std::size_t missing = 0;
  std::size_t prefixes = 0;
  std::size_t counting = 0;
  std::size_t endless = 0;
  std::size_t observed = 0;
  for (const auto& [id, waiter] : waiters_) {
    observed += waiter.observes ? 1 : 0;
    weight += waiter.weight;
    endless += waiter.deadline == TimePoint::max() ? 1 : 0;
    missing += waiter.missing;
    for (const std::string_view token : waiter.tokens) {
      prefixes += token.front() == 'p' ? 1 : 0;
      counting += token.front() == 'n' ? 1 : 0;
    }
  }
  std::size_t indexed = 0;
  for (const auto& [token, ids] : by_token_) indexed += ids.size();
  std::size_t sized = 0;
  for (const auto& [size, count] : prefix_sizes_) sized += count;
  std::size_t counted = 0;
  for (const auto& [key, numbers] : counters_) {
    for (const auto& [number, waiters] : numbers) counted += waiters;
  }
  return first_difference(
      {differ("weight of blocked requests", weight_, weight),
       differ("blocked requests that only read", observed_, observed),
       differ("tokens of blocked requests", indexed, missing),
       differ("prefixes of blocked requests", sized, prefixes),
       differ("blocked requests that wait for a number", counted, counting),
       differ("deadlines of blocked requests", by_deadline_.size(), waiters_.size() - endless),
       differ("calls of blocked requests", by_call_.size(), waiters_.size())});
}

}  // namespace c10dd::core
