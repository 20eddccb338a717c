// SPDX-License-Identifier: Apache-2.0
// Keeps the keys that have an expiry. Such a key expires after its time to live, or at the end of
// the session that set the key. Keys without an expiry are not stored here.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "protocol/types.h"

namespace c10dd::core {

/// Says when a key expires. A key with a default Expiry never expires.
struct Expiry {
  Duration ttl{0};    ///< time until the key expires; 0: no time to live
  SessionId owner{};  ///< the key expires when this session ends; zero: no owner

  bool endless() const { return ttl == Duration::zero() && owner == SessionId{}; }
};

class Lifetimes {
 public:
  /// Sets the expiry of a key. Replaces an earlier expiry of the key.
  void put(std::string_view key, const Expiry& expiry, TimePoint now);
  void erase(std::string_view key);
  Expiry find(std::string_view key) const;

  /// Restarts the full time to live of each key at `now`. Call it after the last put() of a
  /// restore.
  void resume(TimePoint now);

  /// Returns at most `limit` keys whose time to live is over, the earliest deadline first.
  std::vector<Bytes> due(TimePoint now, std::size_t limit) const;
  std::optional<TimePoint> next_deadline() const;

  std::vector<Bytes> owned_by(const SessionId& session) const;
  std::vector<SessionId> owners() const;

 private:
  struct ExpiringKey {
    Expiry expiry;
    TimePoint deadline;
  };
  using ExpiringKeys = std::map<Bytes, ExpiringKey, std::less<>>;

  ExpiringKeys expiring_;
  std::set<std::pair<TimePoint, Bytes>> by_deadline_;
  std::map<SessionId, std::set<Bytes>> by_owner_;
};

}  // namespace c10dd::core
