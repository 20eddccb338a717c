// SPDX-License-Identifier: Apache-2.0
// What a job should hold, as simply as possible: keys with their lives, queues with their claims,
// the answers that a retry must get, the sessions that have ended. Copied for each revision, so
// that a death of the daemon is a step back.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/core/script_answers.h"
#include "tests/unit/core/script_words.h"

namespace c10dd::core {

class Model {
 public:
  using Call = std::pair<SessionId, std::uint64_t>;

  struct Key {
    Bytes value;
    Revision revision = 0;
    Duration ttl{0};
    TimePoint deadline;
    SessionId owner;
  };
  struct Item {
    std::uint64_t place = 0;
    Bytes queue;
    Bytes value;
  };

  std::map<Bytes, Key> keys;
  std::map<std::uint64_t, Item> free;  // by place, of all queues
  std::map<Call, Item> claims;
  std::map<Call, std::string> answered;  // of writes that changed something
  std::set<Call> applied;                // those, also after their session has ended
  std::set<SessionId> ended;
  std::vector<Change> fresh;  // of the newest revision

  bool has(const Bytes& key) const { return keys.contains(key); }
  std::size_t length(const Bytes& queue) const {
    return static_cast<std::size_t>(std::ranges::count_if(
        free, [&](const auto& entry) { return entry.second.queue == queue; }));
  }

  void begin(Revision revision, TimePoint now) {
    revision_ = revision;
    now_ = now;
    fresh.clear();
  }

  /// Takes the oldest item for a call.
  std::optional<Bytes> claim(const Call& call, const Bytes& queue) {
    const auto it =
        std::ranges::find_if(free, [&](const auto& entry) { return entry.second.queue == queue; });
    if (it == free.end()) return std::nullopt;
    claims[call] = it->second;
    free.erase(it);
    return claims[call].value;
  }

  void acknowledge(const SessionId& id, std::uint64_t below) {
    claims.erase(claims.lower_bound({id, 0}), claims.lower_bound({id, below}));
    answered.erase(answered.lower_bound({id, 0}), answered.lower_bound({id, below}));
    applied.erase(applied.lower_bound({id, 0}), applied.lower_bound({id, below}));
  }

  void cancel(const Call& call) {
    const auto it = claims.find(call);
    if (it == claims.end()) return;
    free[it->second.place] = it->second;
    claims.erase(it);
  }

  /// The sessions that have something which outlives a restart.
  std::set<SessionId> keepers() const {
    std::set<SessionId> ids;
    for (const auto& [call, item] : claims) ids.insert(call.first);
    for (const auto& [call, text] : answered) ids.insert(call.first);
    for (const auto& [name, key] : keys) ids.insert(key.owner);
    ids.erase(SessionId{});
    return ids;
  }

  void end(const SessionId& id, bool expired) {
    if (expired && keepers().contains(id)) ended.insert(id);
    while (claims.lower_bound({id, 0}) != claims.lower_bound({id, ~std::uint64_t{0}})) {
      cancel(claims.lower_bound({id, 0})->first);
    }
    std::vector<Bytes> own;
    for (const auto& [name, key] : keys) {
      if (key.owner == id) own.push_back(name);
    }
    for (const Bytes& name : own) remove(name);
    answered.erase(answered.lower_bound({id, 0}), answered.upper_bound({id, ~std::uint64_t{0}}));
  }

  /// The keys whose time is over end, in the order of their times.
  void expire(TimePoint now) {
    std::set<std::pair<TimePoint, Bytes>> due;
    for (const auto& [name, key] : keys) {
      if (key.ttl > Duration::zero() && key.deadline <= now) due.emplace(key.deadline, name);
    }
    for (const auto& [deadline, name] : due) remove(name);
  }

  /// The daemon has started again: every time starts in full.
  void resume(TimePoint now) {
    for (auto& [name, key] : keys) key.deadline = now + key.ttl;
  }

  /// The answer of a write, which it performs; empty for other operations.
  std::string perform(const Call& call, const Request& request) {
    if (info_of(request).dedup != Dedup::reply) return {};
    if (const auto known = answered.find(call); known != answered.end()) return known->second;
    caller_ = call.first;
    changed_ = false;
    const std::string text = std::visit([this](const auto& r) { return on(r); }, request);
    if (changed_) answered[call] = text;
    if (changed_) applied.insert(call);
    return text;
  }

 private:
  void put(const Bytes& name, Bytes value) {
    Key& key = keys[name];
    key.value = std::move(value);
    key.revision = revision_;
    fresh.push_back({revision_, false, name, key.value});
    changed_ = true;
  }
  void put(const Bytes& name, Bytes value, Duration ttl, bool ephemeral) {
    keys[name] = {{}, 0, ttl, now_ + ttl, ephemeral ? caller_ : SessionId{}};
    put(name, std::move(value));
  }
  bool remove(const Bytes& name) {
    if (keys.erase(name) == 0) return false;
    fresh.push_back({revision_, true, name, {}});
    changed_ = true;
    return true;
  }
  void push(const Bytes& queue, const Bytes& value) {
    ++last_place_;
    free[last_place_] = {last_place_, queue, value};
    changed_ = true;
  }
  std::int64_t add(const Bytes& name, std::int64_t delta) {
    const std::int64_t sum = (has(name) ? script::number(keys[name].value) : 0) + delta;
    put(name, std::to_string(sum));
    return sum;
  }

  std::string on(const Set& op) {
    put(op.key, op.value, op.ttl, op.ephemeral);
    return "ok";
  }
  std::string on(const MultiSet& op) {
    for (std::size_t i = 0; i < op.keys.size(); ++i) {
      put(op.keys[i], op.values[i], Duration{0}, false);
    }
    return "ok";
  }
  std::string on(const Remove& op) { return remove(op.key) ? "ok existed" : "ok absent"; }
  std::string on(const Add& op) { return "ok " + std::to_string(add(op.key, op.delta)); }
  std::string on(const Append& op) {
    put(op.key, keys[op.key].value + op.value);
    return "ok " + std::to_string(keys[op.key].value.size());
  }
  std::string on(const CompareSet& op) {
    const bool exists = has(op.key);
    if (exists ? keys[op.key].value != op.expected : !op.expected.empty()) {
      return exists ? "ok kept " + script::fold(keys[op.key].value) : "ok missing";
    }
    put(op.key, op.desired, Duration{0}, false);
    return "ok swapped";
  }
  std::string on(const RemovePrefix& op) {
    std::vector<Bytes> names;
    for (const auto& [name, key] : keys) {
      if (name.starts_with(op.prefix)) names.push_back(name);
    }
    for (const Bytes& name : names) remove(name);
    return "ok " + std::to_string(names.size());
  }
  std::string on(const QueuePush& op) {
    push(op.key, op.value);
    return "ok " + std::to_string(length(op.key));
  }
  std::string on(const Transact& op) {
    for (std::size_t i = 0; i < op.conditions.size(); ++i) {
      if (!holds(op.conditions[i])) return "ok refused " + std::to_string(i);
    }
    std::string text = "ok applied";
    for (const Action& a : op.actions) {
      if (a.kind == Action::Kind::set) put(a.key, a.value, a.ttl, a.ephemeral);
      if (a.kind == Action::Kind::remove) remove(a.key);
      if (a.kind == Action::Kind::append) put(a.key, keys[a.key].value + a.value);
      if (a.kind == Action::Kind::push) push(a.key, a.value);
      if (a.kind == Action::Kind::add) text += ' ' + std::to_string(add(a.key, a.delta));
    }
    return text;
  }
  std::string on(const auto&) { return "no write"; }

  bool holds(const Condition& c) const {
    const auto it = keys.find(c.key);
    if (c.kind == Condition::Kind::exists) return it != keys.end();
    if (c.kind == Condition::Kind::absent) return it == keys.end();
    if (it == keys.end()) return c.kind == Condition::Kind::revision_is && c.revision == 0;
    return c.kind == Condition::Kind::value_is ? it->second.value == c.value
                                               : it->second.revision == c.revision;
  }

  Revision revision_ = 0;
  TimePoint now_;
  SessionId caller_;
  bool changed_ = false;
  std::uint64_t last_place_ = 0;
};

/// What an answer says is there after a death at this moment, which keeps the changes up to `head`.
inline void expect_kept(const Model& kept, Revision head, const Model::Call& call,
                        const Request& request, const ReplyBody& answer) {
  if (std::holds_alternative<Add>(request) || std::holds_alternative<QueuePush>(request)) {
    EXPECT_TRUE(kept.answered.contains(call));
  }
  if (std::holds_alternative<QueuePop>(request)) {
    EXPECT_TRUE(kept.claims.contains(call)) << "an item may come twice";
  }
  if (const auto* value = std::get_if<Value>(&answer)) {
    EXPECT_LE(value->revision, head);
  }
  if (const auto* changes = std::get_if<Changes>(&answer)) {
    EXPECT_LE(changes->next, head + 1);
  }
  if (const auto* transacted = std::get_if<Transacted>(&answer)) {
    EXPECT_LE(transacted->revision, head);
  }
}

}  // namespace c10dd::core
