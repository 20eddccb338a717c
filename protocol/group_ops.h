// SPDX-License-Identifier: Apache-2.0
// Groups with generations: which members are here, missing or lost. Part of the table in ops.h.
//
// A group has members (sessions that joined) and at most one formed generation: a list of members
// by rank, the same for every member. A group is `forming` until enough sessions have joined, then
// `formed`. It is `broken` as soon as a member of the generation is lost, leaves or asks for a new
// one; then the survivors join again and the next generation forms. It is `finished` when all
// members have finished. No member can close a group for the others.
#pragma once

#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>
#include <map>
#include <string>
#include <vector>

#include "protocol/error.h"
#include "protocol/op_info.h"
#include "protocol/rank_ranges.h"
#include "protocol/shared_bytes.h"
#include "protocol/types.h"

namespace c10dd {

// ---- replies -----------------------------------------------------------------------------------

/// Reply to join: a place in the newest generation.
struct Joined {
  std::uint64_t round = 0;       ///< counts the decisions; the next join names this one
  std::uint64_t generation = 0;  ///< counts the member lists; never reused
  Rank rank = 0;
  std::uint32_t size = 0;
  std::uint64_t digest = 0;    ///< hash of the member list by rank; equal for all members
  std::uint32_t failures = 0;  ///< generations of this group that have ended by a failure so far
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
  std::string domain;  ///< topology: a rack, a switch, an NVLink domain
  std::map<std::string, std::string> labels;
  std::uint64_t step = 0;           ///< training step that the member joined with
  std::int64_t previous_rank = -1;  ///< in the generation before; -1: a new member
};
BOOST_DESCRIBE_STRUCT(MemberInfo, (),
                      (rank, host, pid, local_rank, device, domain, labels, step, previous_rank))

/// Reply to members: the members by rank, from `first` on. `list` is `count` encoded MemberInfo,
/// each with its length.
struct MemberPage {
  std::uint64_t generation = 0;
  std::uint32_t size = 0;    ///< of the generation
  std::uint64_t digest = 0;  ///< of the whole list, as Joined::digest
  Rank first = 0;
  std::uint32_t count = 0;
  SharedBytes list;
};
BOOST_DESCRIBE_STRUCT(MemberPage, (), (generation, size, digest, first, count, list))

/// State of a group; see the head of this file.
enum class GroupPhase : std::uint8_t { forming, formed, broken, finished };
BOOST_DESCRIBE_ENUM(GroupPhase, forming, formed, broken, finished)

/// Asks members to leave in good order.
struct Notice {
  enum class Kind : std::uint8_t { drain, preempt };

  std::uint64_t number = 0;
  Kind kind = Kind::drain;
  std::vector<RankRange> ranks;  ///< of the current generation
  Duration left{0};              ///< time until they are removed
  std::string reason;
  std::vector<RankRange> acknowledged;  ///< those of `ranks` that have acknowledged it
};
BOOST_DESCRIBE_ENUM(Notice::Kind, drain, preempt)
BOOST_DESCRIBE_STRUCT(Notice, (), (number, kind, ranks, left, reason, acknowledged))

/// Status of a group: its state now, not the events that led to it. A client that was away for
/// several changes gets one status.
struct GroupStatus {
  std::uint64_t number = 0;  ///< of this status; grows with each change
  std::uint64_t round = 0;
  std::uint64_t generation = 0;
  std::uint32_t size = 0;
  GroupPhase phase = GroupPhase::forming;
  std::string reason;               ///< why the group is not formed: the ranks, hosts and the cause
  std::vector<RankRange> lost;      ///< members of the generation that are lost
  std::vector<RankRange> finished;  ///< members whose work is done
  std::vector<RankRange> stalled;   ///< members that reported no progress within their limit
  std::vector<MissingRank> details;  ///< of the first lost or stalled members
  std::uint32_t waiting = 0;         ///< members that joined and are not in the generation
  std::vector<Notice> notices;
};
BOOST_DESCRIBE_STRUCT(GroupStatus, (),
                      (number, round, generation, size, phase, reason, lost, finished, stalled,
                       details, waiting, notices))

// ---- operations --------------------------------------------------------------------------------

/// Decides when a generation forms. All members of a group must give the same policy.
struct RendezvousPolicy {
  std::uint32_t min = 1;  ///< fewer members never form a generation
  std::uint32_t max = 1;  ///< further members wait as spares
  Duration last_call{0};  ///< how long to wait for more members once `min` have joined
  Duration ttl{0};    ///< without a sign of life for this long, a member is lost; 0: the default
  Duration grace{0};  ///< without a connection for this long, a member is lost; 0: the default
  /// Every join is a vote for one step. A round closes when all members of the last round have
  /// asked again, or when at least `min` and more than half of the living members have asked and
  /// the others have had `last_call` to do so. The generation changes only if the member list
  /// changes or a vote has `failed`. The rule is torchft's.
  bool quorum = false;

  bool operator==(const RendezvousPolicy&) const = default;
};
BOOST_DESCRIBE_STRUCT(RendezvousPolicy, (), (min, max, last_call, ttl, grace, quorum))

/// Asks for a place in a decision newer than `round`. Blocks until a decision includes this
/// session; a session without a place waits as a spare. A repeat re-attaches. In a formed group,
/// the join of a member of the generation breaks that generation, except in a quorum; the join of a
/// newcomer waits until the members join again.
struct Join {
  static constexpr OpInfo op{50, "join",         OpKind::wait,  Access::join,
                             1,  Dedup::arrival, Growth::needed};
  using Body = Joined;

  std::string group;
  std::uint64_t round = 0;  ///< of the newest Joined; 0: this session has none
  RendezvousPolicy policy;
  std::int64_t rank = -1;  ///< requested; then all members request one, and min is max; -1: any
  bool spare = false;      ///< takes a place only when a member is lost
  std::int32_t local_rank = -1;
  std::string device;
  std::string domain;
  std::map<std::string, std::string> labels;
  std::uint64_t step = 0;  ///< training step, for the readers of the member list
  bool failed = false;     ///< in a quorum: the last step did not commit, so the generation changes
  Duration timeout{0};
};
BOOST_DESCRIBE_STRUCT(Join, (),
                      (group, round, policy, rank, spare, local_rank, device, domain, labels, step,
                       failed, timeout))

/// Returns a page of the member list of the newest generation. Fails with stale_generation if
/// `generation` is not the newest.
struct ReadMembers {
  static constexpr OpInfo op{51, "members",   OpKind::read, Access::observe,
                             1,  Dedup::none, Growth::none};
  using Body = MemberPage;

  std::string group;
  std::uint64_t generation = 0;  ///< 0: the newest
  Rank first = 0;                ///< first rank of the page
};
BOOST_DESCRIBE_STRUCT(ReadMembers, (), (group, generation, first))

/// Removes the caller from a group. leave and fail break its generation, finish does not. The first
/// cause that ended a generation stays its cause. Succeeds without an effect if the caller is not a
/// member.
struct Leave {
  static constexpr OpInfo op{52, "leave",      OpKind::write, Access::join,
                             1,  Dedup::reply, Growth::none};
  using Body = Done;
  enum class Kind : std::uint8_t {
    leave,   ///< the others go on without this member
    finish,  ///< the work of this member is done
    fail,    ///< this member cannot go on; the generation has failed
  };

  std::string group;
  std::uint64_t generation = 0;  ///< stale_generation if the group has a newer one; 0: any
  Kind kind = Kind::leave;
  std::string detail;  ///< what happened; the others read it
};
BOOST_DESCRIBE_ENUM(Leave::Kind, leave, finish, fail)
BOOST_DESCRIBE_STRUCT(Leave, (), (group, generation, kind, detail))

/// Waits until the status of a group is newer than `seen` and returns it; returns the old status
/// after the time-out.
struct WatchGroup {
  static constexpr OpInfo op{53, "watch_group", OpKind::wait, Access::observe,
                             1,  Dedup::none,   Growth::none};
  using Body = GroupStatus;

  std::string group;
  std::uint64_t seen = 0;  ///< GroupStatus::number; 0: return at once
  Duration timeout{0};
};
BOOST_DESCRIBE_STRUCT(WatchGroup, (), (group, seen, timeout))

/// Asks ranks to leave within `deadline`; a rank that has not left by then is lost. All members are
/// notified. Returns the notice's number.
struct Notify {
  static constexpr OpInfo op{54, "notify",     OpKind::write, Access::join,
                             1,  Dedup::reply, Growth::little};
  using Body = Counted;

  std::string group;
  Notice::Kind kind = Notice::Kind::drain;
  std::vector<Rank> ranks;  ///< of the current generation
  std::string host;         ///< also asks all ranks of this host; empty: no host
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

/// Reports what the caller is doing. A `limit` promises the next report within that time: a member
/// that does not keep the promise is `stalled`, and all members are notified.
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
