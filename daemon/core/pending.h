// SPDX-License-Identifier: Apache-2.0
// Keeps the blocked requests (waiters) of one job until their wait ends. A waiter waits for tokens.
// A token stands for an event: a key is set, a counter reaches a number, a barrier is released, a
// queue gets an item, or a key with a certain prefix changes. The wait ends when the last token of
// the waiter fires, when its deadline passes, when the request is cancelled, or when its connection
// or session ends.
#pragma once

#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "daemon/core/audit.h"
#include "daemon/core/memory_ledger.h"
#include "protocol/blob.h"
#include "protocol/hash.h"
#include "protocol/ops.h"
#include "protocol/types.h"

namespace c10dd::core {

class Pending {
 public:
  struct Waiter {
    SessionId session;
    std::uint64_t sequence = 0;
    /// Needed to compute the reply when the wait ends. While the waiter is in the table, the keys
    /// for which it waits are empty here: its tokens have them.
    Request request;
    /// The tokens that were missing when the waiter was added, in the order of the keys. Of a
    /// waiter that was removed: those that have not fired. Waiters of one token share its bytes.
    std::vector<Blob> tokens;
    std::size_t missing = 0;  ///< number of tokens that have not fired
    std::size_t weight = 0;   ///< its part of weight()
    TimePoint started;
    TimePoint deadline;             ///< TimePoint::max(): none
    Duration timeout{0};            ///< that the caller gave, for the error text
    std::uint64_t fingerprint = 0;  ///< CallId::fingerprint of the request
    Charge charge;                  ///< for the memory of the waiter
    bool observes = false;          ///< the session may only read, see Origin
    bool reserves = false;  ///< an item of a queue that ends the wait is kept for the session
    /// If set, the waiter waits until this session is back, is lost, counts as gone, or has ended.
    std::optional<SessionId> absent;
  };

  /// Returns the token of waiters that wait for a change of any key with this prefix.
  static Bytes prefix_token(std::string_view prefix) { return Bytes("p").append(prefix); }

  /// Returns the token of waiters that wait until the number in a key is at least `at_least`.
  static Bytes counter_token(std::string_view key, std::int64_t at_least);

  /// Adds a waiter, which must have a token. Replaces a waiter of the same session and sequence.
  void add(Waiter waiter);

  /// Fires a token. Removes and returns the waiters for which this was the last missing token,
  /// in order of their arrival.
  std::vector<Waiter> fire(std::string_view token);

  /// Fires a token for its oldest waiter only, and removes and returns that waiter. That waiter
  /// must not wait for another token.
  std::optional<Waiter> fire_one(std::string_view token);

  /// Does the same for the oldest waiter of the token that reserves.
  std::optional<Waiter> fire_one_reserving(std::string_view token);

  bool waits_for(std::string_view token) const { return by_token_.contains(token); }
  /// Returns how many waiters wait for the token.
  std::size_t waiters(std::string_view token) const {
    const auto it = by_token_.find(token);
    return it == by_token_.end() ? 0 : it->second.size();
  }

  /// Appends to `out` the token of each prefix of this key, if a waiter waits for that token.
  void prefix_tokens(std::string_view key, std::vector<Bytes>& out) const;

  /// Returns whether a waiter waits for a number in this key.
  bool counts(std::string_view key) const {
    return !counters_.empty() && counters_.find(key) != counters_.end();
  }
  /// Appends to `out` the tokens of the waiters that wait for this number in the key, or for a
  /// smaller number. The cost does not depend on the other waiters of the key.
  void counter_tokens(std::string_view key, std::int64_t number, std::vector<Bytes>& out) const;

  /// Removes and returns the waiters whose deadline has come, in order of deadline, then arrival.
  std::vector<Waiter> expire(TimePoint now);

  /// Removes and returns the waiters of a session, in order of sequence.
  std::vector<Waiter> drop(const SessionId& session);
  /// Removes and returns the waiter of one call, if it is blocked.
  std::optional<Waiter> drop(const SessionId& session, std::uint64_t sequence);

  std::optional<TimePoint> next_deadline() const;
  std::size_t size() const { return waiters_.size(); }
  bool empty() const { return waiters_.empty(); }
  std::size_t weight() const { return weight_; }
  /// Returns how many are of sessions that may only read.
  std::size_t observed() const { return observed_; }
  AuditResult audit() const;

  template <class F>
  void for_each(F&& f) const {
    for (const auto& [id, waiter] : waiters_) f(waiter);
  }

  using Id = std::uint64_t;
  /// Returns the waiters of a token, in order of their arrival; null if it has none.
  const std::set<Id>* waiters_of(std::string_view token) const {
    const auto it = by_token_.find(token);
    return it == by_token_.end() ? nullptr : &it->second;
  }
  const Waiter& at(Id id) const { return waiters_.at(id); }
  /// Returns how many requests of a session are blocked, without the one of a sequence; counts at
  /// most `most`.
  std::size_t of(const SessionId& session, std::size_t most,
                 std::uint64_t without = std::numeric_limits<std::uint64_t>::max()) const;
  /// All waiters, in order of their arrival.
  const std::map<Id, Waiter>& all() const { return waiters_; }

 private:
  struct Hash {
    using is_transparent = void;  // NOLINT(readability-identifier-naming)
    std::size_t operator()(std::string_view token) const { return hash_of(token); }
  };
  struct Equal {
    using is_transparent = void;  // NOLINT(readability-identifier-naming)
    bool operator()(std::string_view a, std::string_view b) const { return a == b; }
  };

  Waiter take(Id id);
  void index(std::string_view token);
  void unindex(std::string_view token);

  Id next_id_ = 1;
  std::map<Id, Waiter> waiters_;
  /// Never iterated: its order is not fixed.
  std::unordered_map<Blob, std::set<Id>, Hash, Equal> by_token_;
  std::set<std::pair<TimePoint, Id>> by_deadline_;
  std::map<std::pair<SessionId, std::uint64_t>, Id> by_call_;
  std::map<std::size_t, std::size_t> prefix_sizes_;  // prefix length -> number of prefix tokens
  /// By key, then by number: how many waiters wait for the number.
  std::map<Bytes, std::map<std::int64_t, std::size_t>, std::less<>> counters_;
  std::size_t weight_ = 0;    // sum over all waiters
  std::size_t observed_ = 0;  // number of Waiter::observes
};

/// Returns the key of a token that stands for a key, a queue, or a change of a key or prefix.
inline std::string_view key_of_token(std::string_view token) { return token.substr(1); }
/// Returns the key of a token of Pending::counter_token().
inline std::string_view key_of_counter(std::string_view token) {
  return token.substr(1 + sizeof(std::int64_t));
}

}  // namespace c10dd::core
