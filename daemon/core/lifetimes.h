// SPDX-License-Identifier: Apache-2.0
// The keys that end by themselves: after a time, or with the session that set them. Most keys have
// neither and cost nothing here.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "protocol/types.h"

namespace c10dd::core {

/// How a key ends by itself; the default is never.
struct Expiry {
  Duration ttl{0};    ///< after this long; 0: not by time
  SessionId owner{};  ///< with this session; zero: with none

  bool endless() const { return ttl == Duration::zero() && owner == SessionId{}; }
};

class Lifetimes {
 public:
  /// The key has this expiry from now on, instead of an older one.
  void put(const Bytes& key, const Expiry& expiry, TimePoint now);
  void erase(std::string_view key);
  Expiry find(std::string_view key) const;

  /// After the last put of a restore: every time-to-live starts in full at `now`.
  void resume(TimePoint now);

  /// At most `limit` keys whose time has come, in order.
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
