// SPDX-License-Identifier: Apache-2.0
// Restores one group from its rows after a restart. Refuses rows that the class Group never writes,
// because such rows would break a guarantee later. Examples: two members with the same rank, a
// member that can never leave, a revision newer than the job's. The failure has `Code::malformed`
// and names the group.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "daemon/core/group/state.h"

namespace c10dd::core {

class StoredGroup {
 public:
  explicit StoredGroup(std::string name) : name_(std::move(name)) {}

  // Each take() restores one row. The rows may come in any order. Fails with malformed.
  Result<void> take(GroupFacts facts);
  Result<void> take(const SessionId& id, GroupMember member);
  Result<void> take(MemberList list);

  /// Completes the restore after the last row, and returns the state of the group. No member has a
  /// connection in this state. `newest` is the job's revision. Fails with malformed if the rows do
  /// not fit together.
  Result<GroupState> complete(Revision newest);

 private:
  std::string name_;
  std::optional<GroupFacts> facts_;
  std::map<SessionId, GroupMember> members_;
  MemberList list_;
};

}  // namespace c10dd::core
