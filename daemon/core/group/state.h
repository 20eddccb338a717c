// SPDX-License-Identifier: Apache-2.0
// Holds the state of one group: its own row (GroupFacts), its members, the member list of its
// generation, and counts of its members. Makes no decisions. put() and remove() write the row of a
// member. start() writes the row of the member list. settle() writes the group's own row.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/core/group/rows.h"

namespace c10dd::core {

/// Counts the members of one generation or of several generations.
struct Attendance {
  std::size_t here = 0;
  std::size_t missing = 0;  ///< lost or left
};

/// Describes a generation that is about to start.
struct NextGeneration {
  std::uint64_t number = 0;
  std::string reason;
  std::vector<SessionId> members;  ///< by rank
  std::vector<SessionId> parked;   ///< members that asked for a place but get none
};

class GroupState {
 public:
  /// Counts of members. A member is alive until it finishes, leaves or is lost. All counts except
  /// `finished` count only alive members. "In the list" means in the member list of the current
  /// generation.
  struct Counts {
    std::size_t alive = 0;          ///< all alive members
    std::size_t asking = 0;         ///< members that ask for a place
    std::size_t asking_spares = 0;  ///< members that ask for a place as spares
    std::size_t asking_away = 0;    ///< members that ask for a place but have no connection
    std::size_t asking_old = 0;     ///< members that ask for a place and are in the list
    std::size_t expected = 0;       ///< members in the list that do not ask for a place
    std::size_t requests = 0;       ///< members that ask for a certain rank
    std::size_t of_list = 0;        ///< all alive members in the list
    std::size_t finished = 0;       ///< finished members in the list, even if they ask again
  };

  explicit GroupState(std::string name) : name_(std::move(name)) {}
  /// Restores the state after a restart. The members get their ranks from the list.
  GroupState(std::string name, GroupFacts facts, std::map<SessionId, GroupMember> members,
             MemberList list);

  /// Lets `account` pay for all members and notices, which were restored.
  void charge_all(const AccountRef& account);

  const std::string& name() const { return name_; }
  const GroupFacts& facts() const { return facts_; }
  const std::map<SessionId, GroupMember>& members() const { return members_; }
  const GroupMember* find(const SessionId& id) const;
  /// Returns the member list of the generation. The field `encoded` of this list is empty. Call
  /// encoded_list() to get the encoded list.
  const MemberList& list() const { return list_; }
  const std::shared_ptr<const Bytes>& encoded_list() const { return encoded_list_; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(list_.sessions.size()); }
  /// Returns the member with this rank, even if the member has ended; nullptr if there is none.
  const GroupMember* holder(Rank rank) const;
  const Counts& counts() const { return counts_; }
  Attendance attendance() const;
  bool asks(const GroupMember& member) const { return member.asks(facts_.round); }
  /// Returns how many members request this rank.
  std::size_t requests_for(std::int64_t rank) const;
  /// Returns the revision of the newest change to a member, the list or the status.
  Revision changed() const { return changed_; }
  /// Returns a number that grows whenever the status may have changed.
  std::uint64_t version() const { return version_; }

  // ---- changes
  /// Returns the group's facts, which the caller may change. The next settle() writes the facts to
  /// the group's row.
  GroupFacts& edit_facts();
  /// Adds a member. Has no effect if the session is already a member.
  void add(const SessionId& id);
  /// Lets `edit` change a member, and updates the counts. If a stored field of the member has
  /// changed, the caller must call put().
  template <class F>
  void change(const SessionId& id, F&& edit) {
    GroupMember& member = members_.at(id);
    count(member, -1);
    edit(member);
    count(member, 1);
  }
  void put(const SessionId& id, ChangeContext& at) const;
  void remove(const SessionId& id, ChangeContext& at);
  /// Starts a generation: assigns the ranks, and removes the members that have ended.
  void start(const NextGeneration& next, ChangeContext& at);
  /// Notes a change of the status. Members that watch the group get the new status.
  void note_status_change(ChangeContext& at);
  /// Notes that a member has changed, but the status has not.
  void note_change(Revision revision) { changed_ = revision; }
  /// Notes a change of the status. Members that watch the group do not get the new status.
  void renew_version() { ++version_; }
  /// Writes the group's row if the row has changed. Returns whether note_status_change() was called
  /// since the last settle().
  bool settle(ChangeContext& at);

 private:
  void count(const GroupMember& m, int by);
  void recount();
  void forget_ended(ChangeContext& at);

  std::string name_;
  GroupFacts facts_;
  std::map<SessionId, GroupMember> members_;
  MemberList list_;
  std::shared_ptr<const Bytes> encoded_list_ = std::make_shared<const Bytes>();
  Counts counts_;
  std::map<std::int64_t, std::size_t> requested_;  // rank -> number of members that request it
  Revision changed_ = 0;
  std::uint64_t version_ = 0;
  bool row_changed_ = false;
  bool status_changed_ = false;
};

}  // namespace c10dd::core
