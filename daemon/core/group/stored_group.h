// SPDX-License-Identifier: Apache-2.0
// The rows of one group as a restart finds them. Refuses rows that the group cannot have written,
// so that it breaks no promise later: a rank that two members have, a member that can never go, an
// answer from the future. A refusal is malformed and names the group.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "daemon/core/group/state.h"

namespace c10dd::core {

class StoredGroup {
 public:
  explicit StoredGroup(std::string name) : name_(std::move(name)) {}

  // Take one row each, in any order.
  Result<void> take(GroupFacts facts);
  Result<void> take(const SessionId& id, GroupMember member);
  Result<void> take(MemberList list);

  /// After the last row of a job of this revision: the state of the group, with no member present.
  /// Fails if the rows do not fit together. Leaves no rows here.
  Result<GroupState> complete(Revision newest);

 private:
  std::string name_;
  std::optional<GroupFacts> facts_;
  std::map<SessionId, GroupMember> members_;
  MemberList list_;
};

}  // namespace c10dd::core
