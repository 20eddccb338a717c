// SPDX-License-Identifier: Apache-2.0
// Keeps all groups of a job. Each call that may change a group marks the group as touched, and
// settle() brings the touched groups up to date. At the end of each step, Job::settle() calls
// GroupOps::settle(), which calls Groups::settle(). These calls come before the rows of the step
// are recorded.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "daemon/core/deadlines.h"
#include "daemon/core/group/group.h"
#include "daemon/core/group/liveness.h"
#include "daemon/core/group/stored_group.h"

namespace c10dd::core {

class Groups {
 public:
  explicit Groups(Duration takeover_grace = {}) : liveness_(takeover_grace) {}

  // ---- requests of members
  Result<void> join(const SessionId& id, const Session& session, const Join& request,
                    ChangeContext& at);
  void leave(const SessionId& id, const Leave& request, ChangeContext& at);
  void withdraw(const SessionId& id, const std::string& group, const std::string& why,
                ChangeContext& at);
  Result<std::uint64_t> notify(const Notify& request, ChangeContext& at);
  Result<void> acknowledge(const SessionId& id, const Acknowledge& request, ChangeContext& at);
  Result<void> progress(const SessionId& id, const Progress& report, ChangeContext& at);

  // ---- changes of sessions
  void connected(const SessionId& id, ChangeContext& at);
  void disconnected(const SessionId& id, TimePoint now);
  /// Removes an ended session from all its groups.
  void ended(const SessionId& id, const std::string& why, ChangeContext& at);

  /// Removes lost members, and notes how much time others have left to return. If the deadline of a
  /// group has come, marks the group as touched.
  void tick(const Sessions& sessions, ChangeContext& at);
  std::optional<TimePoint> next_deadline() const;

  /// A group whose status has changed.
  struct ChangedGroup {
    const Group* group;
    bool formed;                ///< a generation has formed
    bool ended;                 ///< a generation has ended early
    std::vector<Rank> stalled;  ///< ranks that have become stalled
  };
  /// Settles each touched group, see Group::settle(). Returns the groups whose status has changed.
  /// The caller can then reply to the requests that wait for these groups.
  std::vector<ChangedGroup> settle(ChangeContext& at);
  /// Returns whether no group is touched.
  bool settled() const { return touched_.empty(); }

  /// Returns whether no group has a member that is here or lost: all have finished or left.
  bool are_over() const;
  const Group* find(const std::string& name) const;
  const std::map<std::string, Group>& all() const { return groups_; }
  /// Returns the session as a member of the first of its groups in which it is alive; null if it is
  /// in none.
  const GroupMember* member(const SessionId& id) const;
  /// Returns the group; fails with not_found if nobody has joined it.
  Result<const Group*> known(const std::string& name) const;
  /// Returns how many members of the current generations are alive and how many are missing, summed
  /// over all groups.
  const Attendance& attendance() const { return attendance_; }

  static bool owns(const Row& row) {
    return !row.key.empty() && std::string_view("gml").find(row.key[0]) != std::string_view::npos;
  }
  /// Restores one row. Fails with malformed.
  Result<void> restore(const Row& row);
  /// Completes the restore of all groups. Call it after the last restore(). `newest` is the
  /// revision of the job. At first no member has a connection. Fails with malformed if the rows of
  /// a group do not fit together.
  Result<void> resume(Revision newest, TimePoint now, const AccountRef& account = nullptr);
  /// Returns the sessions that are members of any group. The caller must call ended() for each of
  /// these sessions when the session ends.
  std::vector<SessionId> members() const { return liveness_.members(); }
  /// Returns the bytes that are charged for what it holds.
  std::size_t charged() const;
  Duration ttl_of(const SessionId& id) const { return liveness_.ttl_of(id); }  ///< see Liveness
  /// Returns the revision of the newest change of any group.
  Revision newest() const;

 private:
  Group* open(const std::string& name);
  void count(const std::string& name, const Group& group);

  std::map<std::string, Group> groups_;
  std::map<std::string, StoredGroup> stored_;  // empty after resume()
  std::map<std::string, Attendance> counted_;  // how much each group has added to attendance_
  Attendance attendance_;
  std::set<std::string> touched_;
  Liveness liveness_;
  Deadlines<std::string> deadlines_;  // of groups
};

}  // namespace c10dd::core
