// SPDX-License-Identifier: Apache-2.0
// Operations on groups, whose members agree on a generation. Part of the operation table in ops.h.
//
// The members of a group are the sessions that joined. A generation is a list of members in the
// order of their ranks. All members get the same list. A group has at most one formed generation. A
// group is `forming` until enough sessions have joined; then it is `formed`. It becomes `broken` as
// soon as a member of the generation is lost, leaves or asks for a new generation. After that the
// survivors join again, and the next generation forms. The group becomes `finished` when all
// members of the generation have finished. No member can close a group for the other members.
//
// In each round, the group gives places to members that have joined. A round starts a new
// generation. In a quorum, a round may instead keep the old generation (RendezvousPolicy::quorum).
#pragma once

#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>
#include <map>
#include <string>
#include <vector>

#include "protocol/error.h"
#include "protocol/op_info.h"
#include "protocol/rank_ranges.h"
#include "protocol/replies.h"
#include "protocol/shared_bytes.h"
#include "protocol/types.h"

namespace c10dd {

// ---- replies -----------------------------------------------------------------------------------

/// Reply to join: a place in the newest generation.
struct Joined {
  std::uint64_t round = 0;       ///< number of the round, for Join::round of the next join
  std::uint64_t generation = 0;  ///< number of the generation; never reused
  Rank rank = 0;
  std::uint32_t size = 0;
  std::uint64_t digest = 0;    ///< hash of the session ids in rank order; equal for all members
  std::uint32_t failures = 0;  ///< number of generations of this group that have ended by a failure
  std::string reason;          ///< why this generation formed, and how the ranks were assigned
  std::uint64_t status = 0;    ///< GroupStatus::number to watch from
};
BOOST_DESCRIBE_STRUCT(Joined, (), (round, generation, rank, size, digest, failures, reason, status))

/// One entry of the member list.
struct MemberInfo {
  Rank rank = 0;
  std::string host;
  std::uint64_t pid = 0;
  std::int32_t local_rank = -1;
  std::string device;
  std::string domain;  ///< place in the network: a rack, a switch, an NVLink domain
  std::map<std::string, std::string> labels;
  std::uint64_t step = 0;           ///< training step that the member joined with
  std::int64_t previous_rank = -1;  ///< rank in the previous generation; -1: a new member
};
BOOST_DESCRIBE_STRUCT(MemberInfo, (),
                      (rank, host, pid, local_rank, device, domain, labels, step, previous_rank))

/// Reply to ReadMembers: `count` members in rank order, beginning with the rank `first`. For each
/// member, `list` has the length of the encoded MemberInfo, then the encoded MemberInfo itself.
struct MemberPage {
  std::uint64_t generation = 0;
  std::uint32_t size = 0;    ///< of the generation
  std::uint64_t digest = 0;  ///< hash of the whole member list, as in Joined::digest
  Rank first = 0;
  std::uint32_t count = 0;
  SharedBytes list;
};
BOOST_DESCRIBE_STRUCT(MemberPage, (), (generation, size, digest, first, count, list))

/// State of a group; see the head of this file.
enum class GroupPhase : std::uint8_t { forming, formed, broken, finished };
BOOST_DESCRIBE_ENUM(GroupPhase, forming, formed, broken, finished)

/// A request to members to leave the group in good order.
struct Notice {
  enum class Kind : std::uint8_t { drain, preempt };

  std::uint64_t number = 0;
  Kind kind = Kind::drain;
  std::vector<RankRange> ranks;  ///< of the current generation
  Duration left{0};              ///< time until they are removed
  std::string reason;
  std::vector<RankRange> acknowledged;  ///< ranks that have acknowledged the notice
};
BOOST_DESCRIBE_ENUM(Notice::Kind, drain, preempt)
BOOST_DESCRIBE_STRUCT(Notice, (), (number, kind, ranks, left, reason, acknowledged))

/// Status of a group: its current state, not the events that led to it. A client that missed
/// several changes gets one status.
struct GroupStatus {
  std::uint64_t number = 0;  ///< number of this status; grows with each change
  std::uint64_t round = 0;
  std::uint64_t generation = 0;
  std::uint32_t size = 0;
  GroupPhase phase = GroupPhase::forming;
  std::string reason;                ///< why the group is not formed; names the ranks and hosts
  std::vector<RankRange> lost;       ///< members of the generation that are lost
  std::vector<RankRange> finished;   ///< members whose work is done
  std::vector<RankRange> stalled;    ///< members that sent no report within their Progress::limit
  std::vector<MissingRank> details;  ///< describes the first lost or stalled members
  std::uint32_t waiting = 0;         ///< number of newcomers that would fit in a larger generation
  std::vector<Notice> notices;
};
BOOST_DESCRIBE_STRUCT(GroupStatus, (),
                      (number, round, generation, size, phase, reason, lost, finished, stalled,
                       details, waiting, notices))

// ---- operations --------------------------------------------------------------------------------

/// The rule by which a generation forms. All members of a group must give the same policy.
struct RendezvousPolicy {
  std::uint32_t min = 1;  ///< least number of members of a generation
  std::uint32_t max = 1;  ///< further members wait as spares
  Duration last_call{0};  ///< time to wait for more members after `min` have joined
  Duration ttl{0};        ///< a member without a sign of life for this long is lost; 0: the default
  Duration grace{0};      ///< a member without a connection for this long is lost; 0: the default
  /// Makes the group a quorum, as in torchft. Then each join is a vote for one training step. A
  /// round ends as soon as all members of the last generation have joined again. If some of these
  /// members do not join, the round needs at least `min` members and more than half of the living
  /// members. Then the round waits for the other living members, but not longer than `last_call`. A
  /// round starts a new generation only if the member list has changed, the last generation is
  /// broken, or a join sets Join::failed.
  bool quorum = false;

  bool operator==(const RendezvousPolicy&) const = default;
};
BOOST_DESCRIBE_STRUCT(RendezvousPolicy, (), (min, max, last_call, ttl, grace, quorum))

/// Asks for a place in a generation. Blocks until a round after `round` gives this session a place.
/// A session that gets no place waits as a spare. A repeated join continues the wait. In a formed
/// group, a join by a member of the generation breaks that generation, except in a quorum. A join
/// by a newcomer waits until the members join again.
struct Join {
  static constexpr OpInfo op{50, "join",         OpKind::wait,  Access::join,
                             1,  Dedup::arrival, Growth::needed};
  using Body = Joined;

  std::string group;
  std::uint64_t round = 0;  ///< Joined::round of the last reply; 0 before the first reply
  RendezvousPolicy policy;
  /// Requested rank; -1: any rank. If a member requests a rank, all members must request one, and
  /// `policy.min` must equal `policy.max`.
  std::int64_t rank = -1;
  bool spare = false;  ///< true: gets a place only after all sessions that are not spares
  std::int32_t local_rank = -1;
  std::string device;
  std::string domain;
  std::map<std::string, std::string> labels;
  std::uint64_t step = 0;  ///< training step, shown in the member list
  bool failed = false;     ///< true: the last step did not commit, so a quorum changes generation
  Duration timeout{0};
  Duration waited{0};  ///< see Get
};
BOOST_DESCRIBE_STRUCT(Join, (),
                      (group, round, policy, rank, spare, local_rank, device, domain, labels, step,
                       failed, timeout, waited))

/// Asks for a page of the member list of the newest generation. Fails with stale_generation if
/// `generation` names a different generation.
struct ReadMembers {
  static constexpr OpInfo op{51, "members",   OpKind::read, Access::observe,
                             1,  Dedup::none, Growth::none};
  using Body = MemberPage;

  std::string group;
  std::uint64_t generation = 0;  ///< 0: the newest
  Rank first = 0;                ///< first rank of the page
};
BOOST_DESCRIBE_STRUCT(ReadMembers, (), (group, generation, first))

/// Removes the caller from a group. The kinds `leave` and `fail` break the group's generation; the
/// kind `finish` does not. If a generation ends for several causes, only the first is recorded.
/// Succeeds without an effect if the caller is not a member.
struct Leave {
  static constexpr OpInfo op{52, "leave",      OpKind::write, Access::join,
                             1,  Dedup::reply, Growth::none};
  using Body = Done;
  enum class Kind : std::uint8_t {
    leave,   ///< the other members go on without this member
    finish,  ///< the work of this member is done
    fail,    ///< this member cannot go on; the generation has failed
  };

  std::string group;
  std::uint64_t generation = 0;  ///< must be the newest (else stale_generation); 0: not checked
  Kind kind = Kind::leave;
  std::string detail;  ///< what happened, for the other members to read
};
BOOST_DESCRIBE_ENUM(Leave::Kind, leave, finish, fail)
BOOST_DESCRIBE_STRUCT(Leave, (), (group, generation, kind, detail))

/// Waits until the group has a status newer than `seen`. The reply is that status. After the
/// time-out, the reply is the unchanged status.
struct WatchGroup {
  static constexpr OpInfo op{53, "watch_group", OpKind::wait, Access::observe,
                             1,  Dedup::none,   Growth::none};
  using Body = GroupStatus;

  std::string group;
  std::uint64_t seen = 0;  ///< GroupStatus::number; 0: return at once
  Duration timeout{0};
};
BOOST_DESCRIBE_STRUCT(WatchGroup, (), (group, seen, timeout))

/// Asks ranks to leave the group within `deadline`. A rank that has not left by the deadline is
/// lost. Notifies all members, not only these ranks. The reply is the number of the notice.
struct Notify {
  static constexpr OpInfo op{54, "notify",     OpKind::write, Access::join,
                             1,  Dedup::reply, Growth::little};
  using Body = Counted;

  std::string group;
  Notice::Kind kind = Notice::Kind::drain;
  std::vector<Rank> ranks;  ///< of the current generation
  std::string host;         ///< all ranks on this host are asked, too; empty: no host
  Duration deadline{0};     ///< time to leave; 0: no deadline
  std::string reason;
};
BOOST_DESCRIBE_STRUCT(Notify, (), (group, kind, ranks, host, deadline, reason))

/// Acknowledges a notice that names the caller.
struct Acknowledge {
  static constexpr OpInfo op{55, "acknowledge", OpKind::write, Access::join,
                             1,  Dedup::reply,  Growth::none};
  using Body = Done;

  std::string group;
  std::uint64_t notice = 0;  ///< Notice::number
};
BOOST_DESCRIBE_STRUCT(Acknowledge, (), (group, notice))

/// Reports what the caller is doing. If `limit` is set, the caller promises its next report within
/// that time. A caller that breaks the promise is `stalled`, and all members are notified.
struct Progress {
  static constexpr OpInfo op{56, "progress",  OpKind::event, Access::join,
                             1,  Dedup::none, Growth::none};
  using Body = Done;

  std::string group;
  std::uint64_t generation = 0;
  std::string phase;  ///< forward, backward, checkpoint, ...
  std::uint64_t step = 0;
  Duration limit{0};  ///< 0: no promise
};
BOOST_DESCRIBE_STRUCT(Progress, (), (group, generation, phase, step, limit))

}  // namespace c10dd
