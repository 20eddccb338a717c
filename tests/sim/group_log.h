// SPDX-License-Identifier: Apache-2.0
// What the durable rows of one job say of its groups, step by step: who was a member when, which
// generations formed and of whom, and which bound arrivals were taken. Reads rows only.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/core/group/rows.h"
#include "tests/sim/records.h"

namespace c10dd::sim {

/// The session in the key of a member's row.
SessionId member_of(const Row& row);

/// A list that was decided.
struct Formation {
  Revision revision = 0;
  std::uint64_t durable = 0;  ///< order
  std::uint64_t round = 0;
  std::uint64_t generation = 0;
  std::uint64_t digest = 0;
  RendezvousPolicy policy;
  std::vector<SessionId> sessions;  ///< by rank
  bool unbroken = false;            ///< the generation before still worked
  std::size_t living = 0;           ///< members that were here
  std::size_t asking = 0;           ///< of them: for a place
};

/// A member that takes part no more.
struct Ending {
  core::GroupMember::State state = core::GroupMember::State::lost;
  SessionId session;
  std::uint64_t generation = 0;
  std::uint64_t durable = 0;  ///< order
};

/// A rank came to a barrier that is bound to the group.
struct BoundArrival {
  Revision revision = 0;
  SessionId session;
  std::uint64_t generation = 0;  ///< of the barrier
  Rank place = 0;                ///< in the group
  std::uint64_t newest = 0;      ///< generation of the group
  bool works = false;            ///< that one is formed, not over
  bool own_place = false;        ///< the session has this rank
};

struct GroupHistory {
  std::vector<Formation> formations;  ///< in order, as are the others
  std::vector<Ending> endings;
  std::vector<BoundArrival> arrivals;

  /// The newest list of a generation that was durable before this moment; nullptr: none.
  const Formation* list_of(std::uint64_t generation, std::uint64_t order) const;
};

class GroupLog {
 public:
  explicit GroupLog(const std::vector<Step>& log);

  const std::map<std::string, GroupHistory>& groups() const { return groups_; }
  /// Without history if nobody has joined it.
  const GroupHistory& of(const std::string& group) const;

 private:
  struct Now {
    core::GroupFacts facts;
    std::optional<core::MemberList> list;  ///< decided, and not yet in the facts
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
