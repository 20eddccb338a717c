// SPDX-License-Identifier: Apache-2.0
// What is stored of a group: its own row ('g'), one of each member ('m'), and the list of the
// generation ('l').
#pragma once

#include <map>
#include <string>
#include <vector>

#include "protocol/ops.h"

namespace c10dd::core {

/// Where and when something happens, and the rows that it makes.
struct Moment {
  Revision revision;
  TimePoint now;
  std::vector<Row>& rows;
};

/// That a notice names a member.
struct NoticeReceipt {
  std::uint64_t number = 0;
  bool acknowledged = false;
};
BOOST_DESCRIBE_STRUCT(NoticeReceipt, (), (number, acknowledged))

/// What is kept of a member; all of it is its row, except what the last section has.
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
  bool failed = false;         ///< of a quorum's vote
  Revision joined = 0;         ///< order of joining
  bool asked = false;          ///< ever; then asked_in counts
  std::uint64_t asked_in = 0;  ///< the group's round when it asked for the next one
  State state = State::here;
  std::string ending;                  ///< how it ended
  std::vector<NoticeReceipt> notices;  ///< that name it, while it is here; by number

  std::int64_t rank = -1;         ///< in the current generation
  std::int64_t former_rank = -1;  ///< likewise, but it has finished there and asks again
  bool present = false;           ///< has a connection
  std::string phase;              ///< of its newest progress report, as is the next
  std::uint64_t at_step = 0;
  bool stalled = false;

  bool is_here() const { return state == State::here; }
  /// Whether the member asks for a place in the round after this one.
  bool asks(std::uint64_t round) const { return is_here() && asked && asked_in == round; }
};
BOOST_DESCRIBE_STRUCT(GroupMember, (),
                      (host, pid, local_rank, device, domain, labels, requested_rank, spare, step,
                       failed, joined, asked, asked_in, state, ending, notices))

/// A notice as it is stored: a deadline is a duration, counted anew after a restart. Which members
/// it names is in their rows, so that an acknowledgement rewrites one member's row, not the
/// group's.
struct StoredNotice {
  std::uint64_t number = 0;
  Notice::Kind kind = Notice::Kind::drain;
  Duration deadline{0};
  std::string reason;
};
BOOST_DESCRIBE_STRUCT(StoredNotice, (), (number, kind, deadline, reason))

/// The group's own row.
struct GroupFacts {
  RendezvousPolicy policy;
  std::uint64_t round = 0;
  std::uint64_t generation = 0;
  GroupPhase phase = GroupPhase::forming;
  std::string reason;
  std::uint32_t failures = 0;
  std::uint64_t status = 0;  ///< revision of the newest change that members are told
  std::uint64_t notices_made = 0;
  std::vector<StoredNotice> notices;
};
BOOST_DESCRIBE_STRUCT(GroupFacts, (),
                      (policy, round, generation, phase, reason, failures, status, notices_made,
                       notices))

/// The list row: the sessions by rank, and the list as members read it.
struct MemberList {
  std::vector<SessionId> sessions;
  std::vector<std::uint32_t> offsets;  ///< where each MemberInfo begins in `encoded`
  std::uint64_t digest = 0;
  Bytes encoded;
};
BOOST_DESCRIBE_STRUCT(MemberList, (), (sessions, offsets, digest, encoded))

/// Of the sessions by rank: what else is in the list changes with each round of a quorum.
std::uint64_t digest_of(const std::vector<SessionId>& sessions);

/// invalid_argument: numbers or times that no group may have.
Result<void> check_policy(const RendezvousPolicy& policy);

// ---- the keys of the rows
Bytes group_key(char kind, const std::string& name);
Bytes member_key(const std::string& name, const SessionId& id);

}  // namespace c10dd::core
