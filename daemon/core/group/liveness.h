// SPDX-License-Identifier: Apache-2.0
// Which members of a job's groups are alive: a member is lost when nothing was heard of its
// connection for the group's ttl, or when it has had no connection for its grace. After a restart
// every member has limits::kRestartGrace to come back. Job time: a paused daemon loses nobody.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/core/group/deadlines.h"
#include "daemon/core/sessions.h"
#include "protocol/ops.h"

namespace c10dd::core {

class Liveness {
 public:
  /// The session is a member of this group from now on. A member of several groups has the shortest
  /// of their times.
  void watch(const SessionId& id, const std::string& group, const RendezvousPolicy& policy,
             TimePoint now);
  /// The session is no member of this group any more.
  void unwatch(const SessionId& id, const std::string& group);

  void connected(const SessionId& id, TimePoint now);
  void disconnected(const SessionId& id, TimePoint now);
  /// The daemon has started again: gives the member time to come back.
  void expect_back(const SessionId& id, TimePoint now);

  struct Lost {
    SessionId id;
    std::string why;
  };
  /// Members that are lost by now, at most limits::kExpiriesPerTick; each must be unwatched.
  std::vector<Lost> take_lost(const Sessions& sessions, TimePoint now);
  std::optional<TimePoint> next_deadline() const { return checks_.next(); }

  /// The groups that the session is a member of.
  std::set<std::string> groups_of(const SessionId& id) const;
  std::vector<SessionId> members() const;

 private:
  struct MemberLiveness {
    Duration ttl{0};
    Duration grace{0};
    std::optional<TimePoint> back_by;  ///< since a restart without a connection
    std::set<std::string> groups;
  };

  void check_at(const SessionId& id, TimePoint when);
  std::optional<Lost> check(const SessionId& id, const Sessions& sessions, TimePoint now);

  std::map<SessionId, MemberLiveness> members_;
  Deadlines<SessionId> checks_;
};

}  // namespace c10dd::core
