// SPDX-License-Identifier: Apache-2.0
// What is known of one group: its facts, its members, the list of its generation, and counts of
// its members. Decides nothing. put() and remove() write the row of a member, start() that of the
// list, and settle() the group's own.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/core/group/rows.h"

namespace c10dd::core {

/// Of a generation's members.
struct Attendance {
  std::size_t here = 0;
  std::size_t missing = 0;  ///< lost or left
};

/// A generation that is to start.
struct NextGeneration {
  std::uint64_t number = 0;
  std::string reason;
  std::vector<SessionId> members;  ///< by rank
  std::vector<SessionId> parked;   ///< have asked, and go on waiting for a place
};

class GroupState {
 public:
  /// Numbers of members. All but `finished` count only members that are here.
  struct Counts {
    std::size_t alive = 0;          ///< here
    std::size_t asking = 0;         ///< of them
    std::size_t asking_spares = 0;  ///< of those
    std::size_t asking_away = 0;    ///< of those: without a connection
    std::size_t asking_old = 0;     ///< of those: in the list
    std::size_t expected = 0;       ///< in the list and here, but not asking
    std::size_t requests = 0;       ///< of the asking
    std::size_t of_list = 0;        ///< in the list and here
    std::size_t finished = 0;       ///< of the list, even if they ask again
  };

  explicit GroupState(std::string name) : name_(std::move(name)) {}
  /// After a restart: gives the members the ranks that they have in the list.
  GroupState(std::string name, GroupFacts facts, std::map<SessionId, GroupMember> members,
             MemberList list);

  const std::string& name() const { return name_; }
  const GroupFacts& facts() const { return facts_; }
  const std::map<SessionId, GroupMember>& members() const { return members_; }
  const GroupMember* find(const SessionId& id) const;
  /// Of the generation; its `encoded` is empty, encoded_list() has it.
  const MemberList& list() const { return list_; }
  const std::shared_ptr<const Bytes>& encoded_list() const { return encoded_list_; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(list_.sessions.size()); }
  /// The member that has this rank now, or had it when it ended.
  const GroupMember* holder(Rank rank) const;
  const Counts& counts() const { return counts_; }
  Attendance attendance() const;
  bool asks(const GroupMember& member) const { return member.asks(facts_.round); }
  /// How many members ask for this very rank.
  std::size_t requests_for(std::int64_t rank) const;
  /// Revision of the newest change to a member, the list or the news.
  Revision changed() const { return changed_; }
  /// Grows when the status of the group, as members read it, may have changed.
  std::uint64_t version() const { return version_; }

  // ---- changes
  /// The next settle() writes the group's row.
  GroupFacts& edit_facts();
  /// Adds a member that is here; has no effect on a known one.
  void add(const SessionId& id);
  /// Lets `edit` change the member and counts it anew; put() must follow if its row is another.
  template <class F>
  void change(const SessionId& id, F&& edit) {
    GroupMember& member = members_.at(id);
    count(member, -1);
    edit(member);
    count(member, 1);
  }
  void put(const SessionId& id, Moment& at) const;
  void remove(const SessionId& id, Moment& at);
  /// Starts a generation: gives out the ranks, and forgets the members that have ended.
  void start(const NextGeneration& next, Moment& at);
  /// The status has changed: the members hear of it.
  void tell(Moment& at);
  /// A member has changed, and the others need not hear of it.
  void note_change(Revision revision) { changed_ = revision; }
  /// The status has changed, and the members need not hear of it.
  void renew_version() { ++version_; }
  /// Writes the group's row if it has changed. Whether the members must hear of a change since the
  /// last call.
  bool settle(Moment& at);

 private:
  void count(const GroupMember& m, int by);
  void recount();
  void forget_ended(Moment& at);

  std::string name_;
  GroupFacts facts_;
  std::map<SessionId, GroupMember> members_;
  MemberList list_;
  std::shared_ptr<const Bytes> encoded_list_ = std::make_shared<const Bytes>();
  Counts counts_;
  std::map<std::int64_t, std::size_t> requested_;  // requested ranks of those who ask
  Revision changed_ = 0;
  std::uint64_t version_ = 0;
  bool row_changed_ = false;
  bool status_changed_ = false;
};

}  // namespace c10dd::core
