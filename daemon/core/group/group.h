// SPDX-License-Identifier: Apache-2.0
// Manages one group: members join, report progress and leave, and generations form.
// protocol/group_ops.h describes the operations. Does no I/O and reads no clock: `at` gives each
// change its revision and time. settle() completes the changes of a step. The class Groups calls
// settle() for each group that may have changed, before the rows of the step are recorded (see
// groups.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "daemon/core/group/formation.h"
#include "daemon/core/group/notices.h"
#include "daemon/core/group/progress.h"
#include "daemon/core/group/state.h"
#include "daemon/core/sessions/sessions.h"
#include "protocol/ops.h"

namespace c10dd::core {

/// The changes of a group since the last settle().
struct GroupChanges {
  bool status = false;        ///< whether watching members must get the new status
  bool formed = false;        ///< a generation has formed
  bool ended = false;         ///< a generation has ended early
  std::vector<Rank> stalled;  ///< ranks that have become stalled
  std::vector<SessionId> members_ended;
};

class Group {
 public:
  explicit Group(std::string name) : state_(std::move(name)) {}
  /// Restores a group after a restart. At first no member has a connection. A last call and the
  /// deadlines of notices go on, see time_left.h.
  Group(GroupState state, TimePoint now)
      : state_(std::move(state)), ended_at_(now), asking_since_(now) {
    notices_.resume(state_, now);
    formation_.resume(state_, now);
  }

  /// Makes the session a member that asks for a place in a round newer than request.round. Fails
  /// with invalid_argument, size_mismatch, rank_taken or quota_exceeded; a failed join changes
  /// nothing.
  Result<void> join(const SessionId& id, const Session& session, const Join& request,
                    ChangeContext& at);
  void set_present(const SessionId& id, bool present);
  /// Stores what is left of the time that a member has to return; 0: it is here.
  void note_time_left(const SessionId& id, Duration left, ChangeContext& at);

  // ---- ends of members; no effect if the session is not a member, or its membership has ended
  void leave(const SessionId& id, Leave::Kind kind, const std::string& detail, ChangeContext& at);
  void lose(const SessionId& id, const std::string& detail, ChangeContext& at);
  /// Removes a member whose client no longer waits for its join.
  void withdraw(const SessionId& id, const std::string& detail, ChangeContext& at);

  // ---- reports, see notices.h and progress.h
  Result<std::uint64_t> notify(const Notify& request, ChangeContext& at);
  Result<void> acknowledge(const SessionId& id, std::uint64_t notice, ChangeContext& at);
  Result<void> progress(const SessionId& id, const Progress& report, ChangeContext& at);

  /// Completes a step: removes the members that did not leave by the deadline of a notice, marks
  /// stalled members, forms a generation if possible, notes what is left of timers, and writes the
  /// group's row if the row has changed. Returns all changes since the last settle(). The class
  /// Groups calls settle() for each touched group.
  GroupChanges settle(ChangeContext& at);
  std::optional<TimePoint> next_deadline() const;

  // ---- state
  const GroupState& state() const { return state_; }
  const std::string& name() const { return state_.name(); }
  const GroupFacts& facts() const { return state_.facts(); }
  std::uint32_t size() const { return state_.size(); }
  const std::vector<SessionId>& sessions() const { return state_.list().sessions; }
  const GroupMember* holder(Rank rank) const { return state_.holder(rank); }
  Revision changed() const { return state_.changed(); }
  /// Returns when the newest generation ended, or when the job was loaded after that.
  TimePoint ended_at() const { return ended_at_; }
  /// Returns when the first of the members asked that ask for a place, or the time of the load.
  TimePoint asking_since() const { return asking_since_; }
  /// Returns whether the session has asked for a place and still waits for the place.
  bool waits(const SessionId& id) const;
  /// Returns whether the group has finished its work, and this request comes for that work: its
  /// session was opened before, at this revision, and had no place.
  bool came_in_vain(const SessionId& id, Revision opened, const Join& request) const;
  /// Returns whether any member of the generation has finished, has left or is lost.
  bool has_ended_members() const { return state_.counts().of_list < size(); }

  // ---- replies to members, see status.h
  std::optional<Joined> place(const SessionId& id, std::uint64_t after_round) const;
  /// Returns the status of the group. The status is computed once per change, and reused for all
  /// members that watch the group. Only the times left until the deadlines of notices are computed
  /// in each call, from `now`.
  const GroupStatus& status(TimePoint now) const;
  Result<MemberPage> page(const ReadMembers& request) const;
  Failure stale(std::uint64_t generation) const;
  Failure broken() const;
  Failure shortage() const;
  Failure finished() const;
  MissingRank describe(Rank rank) const;

 private:
  struct MadeStatus {
    std::uint64_t version;  ///< of the state
    GroupStatus status;
  };

  void break_up(const std::string& reason, bool failed, ChangeContext& at);
  void end(const SessionId& id, GroupMember::State how, const std::string& detail,
           ChangeContext& at);
  void finish_if_done(ChangeContext& at);
  void dismiss_spares(ChangeContext& at);
  void note_last_call(TimePoint now);

  GroupState state_;
  Formation formation_;
  Notices notices_;
  ProgressReports progress_;
  GroupChanges changes_;  // since the last settle()
  TimePoint ended_at_;
  TimePoint asking_since_;
  mutable std::optional<MadeStatus> newest_status_;
};

}  // namespace c10dd::core
