// SPDX-License-Identifier: Apache-2.0
// Blocked requests of one job: the only place where waiting, deadlines and disconnects meet.
// A waiter waits for tokens (a key that must be set, a barrier that must be released, an item in a
// queue, a change under a prefix) and leaves by exactly one of: its last token fires, its deadline
// passes, its session goes.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "daemon/core/audit.h"
#include "protocol/ops.h"
#include "protocol/types.h"

namespace c10dd::core {

class Pending {
 public:
  struct Waiter {
    SessionId session;
    std::uint64_t sequence = 0;
    Request request;            ///< answers are computed from it when the waiter leaves
    std::vector<Bytes> tokens;  ///< still missing when it was added
    std::size_t missing = 0;
    std::size_t weight = 0;  ///< what it counts for in weight()
    TimePoint started;
    TimePoint deadline;
    Duration timeout{0};              ///< as asked, for the error text
    std::uint64_t fingerprint = 0;    ///< of a queue_pop's call
    std::optional<SessionId> absent;  ///< whom a barrier or exchange waits for, not arrived yet
  };

  /// The token of waiters for a change of any key with a prefix.
  static Bytes prefix_token(std::string_view prefix) { return Bytes("p").append(prefix); }

  /// Adds a waiter with at least one token. The same (session, sequence) replaces the older one.
  void add(Waiter waiter);

  /// A token came true: the waiters that now miss nothing, in order of arrival.
  std::vector<Waiter> fire(const Bytes& token);

  /// Likewise, but only the oldest of those that miss nothing else.
  std::optional<Waiter> fire_one(const Bytes& token);

  bool waits_for(const Bytes& token) const { return by_token_.contains(token); }

  /// Appends the prefix tokens that somebody is waiting for and that this key has.
  void prefix_tokens(std::string_view key, std::vector<Bytes>& out) const;

  /// The waiters whose deadline has passed, in order of deadline, then arrival.
  std::vector<Waiter> expire(TimePoint now);

  /// Takes out the waiters of a session, by sequence: its connection or the session itself went.
  std::vector<Waiter> drop(const SessionId& session);
  /// Takes out one call, if it is blocked.
  std::optional<Waiter> drop(const SessionId& session, std::uint64_t sequence);

  std::optional<TimePoint> next_deadline() const;
  std::size_t size() const { return waiters_.size(); }
  bool empty() const { return waiters_.empty(); }
  std::size_t weight() const { return weight_; }
  Finding audit() const;

  template <class F>
  void for_each(F&& f) const {
    for (const auto& [id, waiter] : waiters_) f(waiter);
  }

 private:
  using Id = std::uint64_t;

  Waiter take(Id id);

  Id next_id_ = 1;
  std::map<Id, Waiter> waiters_;
  std::unordered_map<Bytes, std::set<Id>> by_token_;  // looked up only, never iterated
  std::set<std::pair<TimePoint, Id>> by_deadline_;
  std::map<std::pair<SessionId, std::uint64_t>, Id> by_call_;
  std::map<std::size_t, std::size_t> prefix_sizes_;  // of the prefix tokens, with their number
  std::size_t weight_ = 0;                           // of all waiters
};

}  // namespace c10dd::core
