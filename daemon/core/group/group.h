// SPDX-License-Identifier: Apache-2.0
// One group: its members come, report and go, and generations form. Life and words:
// protocol/group_ops.h. Pure: every method that changes something is given the revision and time.
// After such calls, settle() must follow before the rows of the step are stored.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "daemon/core/group/formation.h"
#include "daemon/core/group/notices.h"
#include "daemon/core/group/progress.h"
#include "daemon/core/group/state.h"
#include "daemon/core/sessions.h"
#include "protocol/ops.h"

namespace c10dd::core {

/// What has changed in a group.
struct GroupChanges {
  bool status = false;        ///< the members must hear of it
  bool formed = false;        ///< a generation
  bool ended = false;         ///< a generation
  std::vector<Rank> stalled;  ///< newly
  std::vector<SessionId> members_ended;
};

class Group {
 public:
  explicit Group(std::string name) : state_(std::move(name)) {}
  /// After a restart: no member is present, and every deadline starts in full.
  Group(GroupState state, TimePoint now) : state_(std::move(state)) {
    notices_.resume(state_, now);
  }

  /// Asks for a place in a round newer than request.round. Fails with invalid_argument,
  /// size_mismatch, rank_taken or quota_exceeded; then nothing has changed.
  Result<void> join(const SessionId& id, const Session& session, const Join& request, Moment& at);
  void set_present(const SessionId& id, bool present);

  // ---- going; no effect on a session that is no member, or has ended
  void leave(const SessionId& id, Leave::Kind kind, const std::string& detail, Moment& at);
  void lose(const SessionId& id, const std::string& detail, Moment& at);
  /// The member no longer waits for its join.
  void withdraw(const SessionId& id, const std::string& detail, Moment& at);

  // ---- reports, see notices.h and progress.h
  Result<std::uint64_t> notify(const Notify& request, Moment& at);
  Result<void> acknowledge(const SessionId& id, std::uint64_t notice, Moment& at);
  Result<void> progress(const SessionId& id, const Progress& report, Moment& at);

  /// After the other calls, and when next_deadline() has come: takes out the members that did not
  /// leave in time, marks those that have stalled, forms a generation if its time has come, and
  /// writes the group's row if it has changed. Returns all changes since the last settle().
  GroupChanges settle(Moment& at);
  std::optional<TimePoint> next_deadline() const;

  // ---- what is known of it
  const GroupState& state() const { return state_; }
  const std::string& name() const { return state_.name(); }
  const GroupFacts& facts() const { return state_.facts(); }
  std::uint32_t size() const { return state_.size(); }
  const std::vector<SessionId>& sessions() const { return state_.list().sessions; }
  const GroupMember* holder(Rank rank) const { return state_.holder(rank); }
  Revision changed() const { return state_.changed(); }
  /// Whether the session has asked for a place and has none yet.
  bool waits(const SessionId& id) const;
  /// Whether a member of the generation is not here any more.
  bool has_ended_members() const { return state_.counts().of_list < size(); }

  // ---- what members are told, see status.h
  std::optional<Joined> place(const SessionId& id, std::uint64_t after_round) const;
  /// Made once for all members that are told of one change; the time left of a notice is as of now.
  const GroupStatus& status(TimePoint now) const;
  Result<MemberPage> page(const ReadMembers& request) const;
  Failure stale(std::uint64_t generation) const;
  Failure broken() const;
  Failure shortage() const;
  MissingRank describe(Rank rank) const;

 private:
  struct MadeStatus {
    std::uint64_t version;  ///< of the state
    GroupStatus status;
  };

  void break_up(const std::string& reason, bool failed, Moment& at);
  void end(const SessionId& id, GroupMember::State how, const std::string& detail, Moment& at);
  void finish_if_done(Moment& at);

  GroupState state_;
  Formation formation_;
  Notices notices_;
  ProgressReports progress_;
  GroupChanges changes_;  // since the last settle()
  mutable std::optional<MadeStatus> newest_status_;
};

}  // namespace c10dd::core
