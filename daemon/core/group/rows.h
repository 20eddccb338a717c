// SPDX-License-Identifier: Apache-2.0
// Defines the rows of a group: one row of the group ('g'), one row for each member ('m'), and one
// row with the member list of the generation ('l').
#pragma once

#include <map>
#include <string>
#include <vector>

#include "daemon/core/memory_ledger.h"
#include "protocol/limits.h"
#include "protocol/ops.h"
#include "protocol/rows.h"

namespace c10dd::core {

/// Holds the revision and time of a change. The change appends the rows that it writes to `rows`.
struct ChangeContext {
  Revision revision;
  TimePoint now;
  Rows& rows;
  const AccountRef* account = nullptr;  ///< pays for what the change makes the group hold
};

/// Records in a member's row that a notice names the member.
struct NoticeReceipt {
  std::uint64_t number = 0;
  bool acknowledged = false;
};
BOOST_DESCRIBE_STRUCT(NoticeReceipt, (), (number, acknowledged))

/// A member of a group. All fields up to `time_left` are stored in the member's row; the fields
/// from `rank` on are not.
struct GroupMember {
  enum class State : std::uint8_t { here, finished, left, lost };

  std::string host;
  std::uint64_t pid = 0;
  std::int32_t local_rank = -1;
  std::string device;
  std::string domain;
  std::map<std::string, std::string> labels;
  std::int64_t requested_rank = -1;
  bool spare = false;
  std::uint64_t step = 0;
  bool failed = false;         ///< see Join::failed
  Revision joined = 0;         ///< revision at which the member first joined; orders the members
  bool asked = false;          ///< whether asked_in is set
  std::uint64_t asked_in = 0;  ///< the group's round when the member asked for a place
  State state = State::here;
  std::string ending;                  ///< how the member ended
  std::vector<NoticeReceipt> notices;  ///< notices that name the member; none for an ended member
  /// What was left of its time to return when it was noted, see time_left.h; 0: it is here.
  Duration time_left{0};

  std::int64_t rank = -1;         ///< in the current generation
  std::int64_t former_rank = -1;  ///< rank of a finished member before it asked again; -1: none
  bool present = false;           ///< has a connection
  std::string phase;              ///< of its newest progress report
  std::uint64_t at_step = 0;      ///< of its newest progress report
  bool stalled = false;
  Charge charge = {};

  bool is_here() const { return state == State::here; }
  /// Returns whether the member asks for a place in the round after `round`.
  bool asks(std::uint64_t round) const { return is_here() && asked && asked_in == round; }
};
BOOST_DESCRIBE_STRUCT(GroupMember, (),
                      (host, pid, local_rank, device, domain, labels, requested_rank, spare, step,
                       failed, joined, asked, asked_in, state, ending, notices, time_left))

/// Returns the memory of a member, or of the member that a join makes: of its entries in the group
/// and in the list that the members get.
template <class MemberOrJoin>
std::size_t memory_of_member(const MemberOrJoin& of) {
  constexpr std::size_t kMember = 1'536;
  constexpr std::size_t kLabel = 160;
  std::size_t bytes = of.device.size() + of.domain.size();
  for (const auto& [label, value] : of.labels) bytes += kLabel + label.size() + value.size();
  return kMember + 2 * bytes;
}

/// The stored form of a notice. A member's row lists the notices that name the member, and whether
/// it has acknowledged each (NoticeReceipt). An acknowledgement therefore rewrites only one row.
struct StoredNotice {
  std::uint64_t number = 0;
  Notice::Kind kind = Notice::Kind::drain;
  Duration deadline{0};
  std::string reason;
  Duration time_left{0};  ///< until the deadline, when it was noted; see time_left.h
  Charge charge = {};     ///< not stored
};
BOOST_DESCRIBE_STRUCT(StoredNotice, (), (number, kind, deadline, reason, time_left))

/// Returns the memory of a notice that names so many members.
inline std::size_t memory_of_notice(std::size_t members) {
  return 256 + limits::kReasonBytes + members * sizeof(NoticeReceipt);
}

/// The group's own row.
struct GroupFacts {
  RendezvousPolicy policy;
  std::uint64_t round = 0;
  std::uint64_t generation = 0;
  GroupPhase phase = GroupPhase::forming;
  std::string reason;
  std::uint32_t failures = 0;
  std::uint64_t status = 0;  ///< revision of the newest change of the status
  std::uint64_t notices_made = 0;
  std::vector<StoredNotice> notices;
  Duration last_call_left{0};  ///< when it was noted, see time_left.h; 0: none runs
};
BOOST_DESCRIBE_STRUCT(GroupFacts, (),
                      (policy, round, generation, phase, reason, failures, status, notices_made,
                       notices, last_call_left))

/// The row with the member list: the session of each rank, and the encoded list that members
/// receive.
struct MemberList {
  std::vector<SessionId> sessions;
  std::vector<std::uint32_t> offsets;  ///< where each MemberInfo begins in `encoded`
  std::uint64_t digest = 0;
  Bytes encoded;
};
BOOST_DESCRIBE_STRUCT(MemberList, (), (sessions, offsets, digest, encoded))

/// Returns the digest of a member list. Covers only the session ids, in the order of ranks, because
/// the other fields change with each round of a quorum.
std::uint64_t digest_of(const std::vector<SessionId>& sessions);

/// Fails with invalid_argument if a size or time of the policy is not valid.
Result<void> check_policy(const RendezvousPolicy& policy);

// ---- the keys of the rows
Bytes group_key(char kind, const std::string& name);
Bytes member_key(const std::string& name, const SessionId& id);

}  // namespace c10dd::core
