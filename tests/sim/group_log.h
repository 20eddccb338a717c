// SPDX-License-Identifier: Apache-2.0
// What the durable rows of one job say about its groups, step by step: when each session was a
// member, which generations formed with which members, and which bound arrivals were accepted.
// Reads rows only.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/core/group/rows.h"
#include "tests/sim/records.h"

namespace c10dd::sim {

/// Returns the session in the key of a member's row.
SessionId member_of(const Row& row);

/// A member list that was decided.
struct Formation {
  Revision revision = 0;
  std::uint64_t durable = 0;  ///< order
  std::uint64_t round = 0;
  std::uint64_t generation = 0;
  std::uint64_t digest = 0;
  RendezvousPolicy policy;
  std::vector<SessionId> sessions;  ///< by rank
  bool unbroken = false;            ///< the generation before had not ended
  std::size_t living = 0;           ///< members that were present
  std::size_t asking = 0;           ///< of these: members that asked for a place
};

/// A member that has left, finished or was lost.
struct Ending {
  core::GroupMember::State state = core::GroupMember::State::lost;
  SessionId session;
  std::uint64_t generation = 0;
  std::uint64_t durable = 0;  ///< order
};

/// The arrival of a rank at a barrier that is bound to the group.
struct BoundArrival {
  Revision revision = 0;
  SessionId session;
  std::uint64_t generation = 0;  ///< of the barrier
  Rank place = 0;                ///< the rank in the group
  std::uint64_t newest = 0;      ///< newest generation of the group
  bool works = false;            ///< the newest generation has formed and not ended
  bool own_place = false;        ///< the session has this rank
};

struct GroupHistory {
  std::vector<Formation> formations;  ///< this and the other lists are in order
  std::vector<Ending> endings;
  std::vector<BoundArrival> arrivals;
  std::vector<std::uint64_t> finishes;  ///< order: when its work was finished

  /// Returns the newest list that was durable for a generation before this moment; null if there
  /// was none.
  const Formation* list_of(std::uint64_t generation, std::uint64_t order) const;
};

class GroupLog {
 public:
  explicit GroupLog(const std::vector<Step>& log);

  const std::map<std::string, GroupHistory>& groups() const { return groups_; }
  /// Returns the history of a group; empty if no session has joined it.
  const GroupHistory& of(const std::string& group) const;

 private:
  struct Now {
    core::GroupFacts facts;
    std::optional<core::MemberList> list;  ///< decided, but not yet among the facts
    std::vector<SessionId> sessions;
    std::map<SessionId, core::GroupMember> members;
  };

  void take(const Step& step, const Row& row);
  void take_member(const Step& step, const Row& row);
  void take_facts(const Step& step, const std::string& group, core::GroupFacts facts);
  void take_arrival(const Step& step, const Row& row);

  std::map<std::string, Now> now_;
  std::map<std::string, GroupHistory> groups_;
};

}  // namespace c10dd::sim
