// SPDX-License-Identifier: Apache-2.0
// Decides which members of a job's groups are alive. A connected member is lost when its connection
// has been silent for the group's ttl. A disconnected member is lost when it has been disconnected
// for the group's grace. After a restart every member has limits::kRestartGrace, or its ttl if that
// is more, to reconnect: once in full, until it is heard again; the rows have what is left (see
// time_left.h). All times are job time (see job_time.h), so a pause of the daemon loses no member.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/deadlines.h"
#include "daemon/core/sessions/sessions.h"
#include "protocol/ops.h"

namespace c10dd::core {

class Liveness {
 public:
  /// `takeover_grace`: see Quotas.
  explicit Liveness(Duration takeover_grace) : takeover_grace_(takeover_grace) {}

  /// Adds the session as a member of this group. If the session is in several groups, the shortest
  /// ttl and the shortest grace of these groups apply.
  void watch(const SessionId& id, const std::string& group, const RendezvousPolicy& policy,
             TimePoint now);
  /// Removes the session from the members of this group.
  void unwatch(const SessionId& id, const std::string& group);

  /// Returns whether the rows of the member have what was left of its time to return. The caller
  /// must then change these rows in the same step.
  bool connected(const SessionId& id, TimePoint now);
  void disconnected(const SessionId& id, TimePoint now);
  /// Gives a member time to reconnect after a restart of the daemon. `noted`: what its rows say.
  void expect_back(const SessionId& id, Duration noted, TimePoint now);

  struct Lost {
    SessionId id;
    std::string why;
  };
  /// Returns the members that are lost at `now`. Checks at most limits::kExpiriesPerTick members.
  /// The caller must call unwatch() for each returned member.
  std::vector<Lost> take_lost(const Sessions& sessions, TimePoint now);
  /// What the rows of a member must have from now on.
  struct Note {
    SessionId id;
    Duration time_left;
  };
  /// Returns the notes that the last take_lost() has made.
  std::vector<Note> take_notes() { return std::exchange(notes_, {}); }
  std::optional<TimePoint> next_deadline() const { return checks_.next(); }

  /// Returns the groups that the session is a member of.
  std::set<std::string> groups_of(const SessionId& id) const;
  /// Returns the first of these groups; null if there is none.
  const std::string* first_group_of(const SessionId& id) const;
  std::vector<SessionId> members() const;
  /// Returns the time without a sign of life after which the session is lost as a member; that of a
  /// member without a ttl of its own if it is in no group.
  Duration ttl_of(const SessionId& id) const;

 private:
  struct MemberLiveness {
    Duration ttl{0};
    Duration grace{0};
    std::optional<TimePoint> back_by;  ///< deadline to reconnect after a restart of the daemon
    Duration noted{0};                 ///< GroupMember::time_left of its rows
    std::set<std::string> groups;
  };

  void check_at(const SessionId& id, TimePoint when);
  std::optional<Lost> check(const SessionId& id, const Sessions& sessions, TimePoint now);
  Duration restart_time(const MemberLiveness& member) const;
  TimePoint return_until(const MemberLiveness& member, TimePoint away_since) const;
  std::optional<TimePoint> next_note_of(const MemberLiveness& member, TimePoint away_since) const;
  void note(const SessionId& id, MemberLiveness& member, TimePoint away_since, TimePoint now);

  const Duration takeover_grace_;
  std::map<SessionId, MemberLiveness> members_;
  Deadlines<SessionId> checks_;
  std::size_t noted_ = 0;    // members with MemberLiveness::noted
  std::vector<Note> notes_;  // since the last take_notes()
};

}  // namespace c10dd::core
