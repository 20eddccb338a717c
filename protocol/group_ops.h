// SPDX-License-Identifier: Apache-2.0
// Groups with generations: who is in a job, who is missing, who died. Part of the table in ops.h.
//
// A group has members (sessions that joined) and at most one formed generation: a list of members
// by rank, the same for everybody. Life of a group: `forming` until enough have joined, `formed`,
// `broken` as soon as a member of the generation is lost, leaves or asks for a new one; then the
// survivors join again and the next generation forms. Nobody can close a group for the others.
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

// ---- answers -----------------------------------------------------------------------------------

/// A place in the newest generation.
struct Joined {
  std::uint64_t round = 0;       ///< counts the decisions; ask again with this one
  std::uint64_t generation = 0;  ///< counts the member lists; never reused
  Rank rank = 0;
  std::uint32_t size = 0;
  std::uint64_t digest = 0;    ///< of who has which rank; equal for everybody
  std::uint32_t failures = 0;  ///< generations of this group that ended by a failure so far
  std::string reason;        ///< how this generation came about and why the ranks are what they are
  std::uint64_t status = 0;  ///< watch_group from here
};
BOOST_DESCRIBE_STRUCT(Joined, (), (round, generation, rank, size, digest, failures, reason, status))

/// One member as the list has it.
struct MemberInfo {
  Rank rank = 0;
  std::string host;
  std::uint64_t pid = 0;
  std::int32_t local_rank = -1;
  std::string device;
  std::string domain;  ///< topology: a rack, a switch, an NVLink domain
  std::map<std::string, std::string> labels;
  std::uint64_t step = 0;           ///< that it joined with
  std::int64_t previous_rank = -1;  ///< in the generation before; -1: it is new
};
BOOST_DESCRIBE_STRUCT(MemberInfo, (),
                      (rank, host, pid, local_rank, device, domain, labels, step, previous_rank))

/// Members by rank from `first` on. `list` is that many MemberInfo, each with its length.
struct MemberPage {
  std::uint64_t generation = 0;
  std::uint32_t size = 0;  ///< of the generation
  std::uint64_t digest = 0;
  Rank first = 0;
  std::uint32_t count = 0;
  SharedBytes list;
};
BOOST_DESCRIBE_STRUCT(MemberPage, (), (generation, size, digest, first, count, list))

enum class GroupPhase : std::uint8_t { forming, formed, broken, finished };
BOOST_DESCRIBE_ENUM(GroupPhase, forming, formed, broken, finished)

/// Somebody is to leave in good order.
struct Notice {
  enum class Kind : std::uint8_t { drain, preempt };

  std::uint64_t number = 0;
  Kind kind = Kind::drain;
  std::vector<RankRange> ranks;  ///< of the current generation
  Duration left{0};              ///< until they are taken out
  std::string reason;
  std::vector<RankRange> acknowledged;
};
BOOST_DESCRIBE_ENUM(Notice::Kind, drain, preempt)
BOOST_DESCRIBE_STRUCT(Notice, (), (number, kind, ranks, left, reason, acknowledged))

/// How a group stands now. It tells the state, not each step to it: what happens while a member is
/// not listening comes as one answer.
struct GroupStatus {
  std::uint64_t number = 0;  ///< of this state; grows
  std::uint64_t round = 0;
  std::uint64_t generation = 0;
  std::uint32_t size = 0;
  GroupPhase phase = GroupPhase::forming;
  std::string reason;                ///< why it is not formed: names ranks, hosts and the cause
  std::vector<RankRange> lost;       ///< of the generation
  std::vector<RankRange> finished;   ///< their work is done
  std::vector<RankRange> stalled;    ///< made no progress for as long as they said they would
  std::vector<MissingRank> details;  ///< of the first that are lost or stalled
  std::uint32_t waiting = 0;         ///< joined, and not in the generation
  std::vector<Notice> notices;
};
BOOST_DESCRIBE_STRUCT(GroupStatus, (),
                      (number, round, generation, size, phase, reason, lost, finished, stalled,
                       details, waiting, notices))

// ---- operations --------------------------------------------------------------------------------

/// When a generation forms. All members of a group give the same.
struct RendezvousPolicy {
  std::uint32_t min = 1;  ///< fewer never form a generation
  std::uint32_t max = 1;  ///< more than these wait as spares
  Duration last_call{0};  ///< once min are there, how long more are waited for
  Duration ttl{0};        ///< a member not heard of for this long is lost; 0: the daemon's default
  Duration grace{0};      ///< and one whose connection closed after this; 0: the default
  /// Every join is a vote for one step. A round closes when all of the last one ask again, or when
  /// at least min and more than half of the living have asked and the others had last_call to do
  /// so. The generation changes only with the list. The rule is torchft's.
  bool quorum = false;

  bool operator==(const RendezvousPolicy&) const = default;
};
BOOST_DESCRIBE_STRUCT(RendezvousPolicy, (), (min, max, last_call, ttl, grace, quorum))

/// Asks for a place in a decision newer than `round`. Blocks until there is one that has this
/// session; who is left over waits as a spare. A repeat re-attaches. In a formed group it breaks
/// the generation, unless it is a quorum's vote or comes from a newcomer: that one waits until the
/// members ask.
struct Join {
  static constexpr OpInfo op{50, "join",         OpKind::wait,  Access::join,
                             1,  Dedup::arrival, Growth::needed};
  using Body = Joined;

  std::string group;
  std::uint64_t round = 0;  ///< of the newest Joined; 0: none
  RendezvousPolicy policy;
  std::int64_t rank = -1;  ///< that it must get: then all must say, and min is max; -1: any
  bool spare = false;      ///< takes a place only when somebody is lost
  std::int32_t local_rank = -1;
  std::string device;
  std::string domain;
  std::map<std::string, std::string> labels;
  std::uint64_t step = 0;  ///< of its training, for who reads the member list
  bool failed = false;     ///< of a quorum: the last step did not commit, so the generation changes
  Duration timeout{0};
};
BOOST_DESCRIBE_STRUCT(Join, (),
                      (group, round, policy, rank, spare, local_rank, device, domain, labels, step,
                       failed, timeout))

/// The member list of the newest generation. stale_generation for another one.
struct ReadMembers {
  static constexpr OpInfo op{51, "members",   OpKind::read, Access::observe,
                             1,  Dedup::none, Growth::none};
  using Body = MemberPage;

  std::string group;
  std::uint64_t generation = 0;  ///< 0: whichever is the newest
  Rank first = 0;
};
BOOST_DESCRIBE_STRUCT(ReadMembers, (), (group, generation, first))

/// Takes the caller out of a group. leave and fail break its generation, finish does not; the first
/// failure of a generation is its cause. No effect, and no error, when it is not a member.
struct Leave {
  static constexpr OpInfo op{52, "leave",      OpKind::write, Access::join,
                             1,  Dedup::reply, Growth::none};
  using Body = Done;
  enum class Kind : std::uint8_t {
    leave,   ///< the work goes on without it
    finish,  ///< its work is done
    fail,    ///< it cannot go on; the generation has failed
  };

  std::string group;
  std::uint64_t generation = 0;  ///< stale_generation if it has formed another one since; 0: any
  Kind kind = Kind::leave;
  std::string detail;  ///< for the others: what happened
};
BOOST_DESCRIBE_ENUM(Leave::Kind, leave, finish, fail)
BOOST_DESCRIBE_STRUCT(Leave, (), (group, generation, kind, detail))

/// Answers when the state of a group is newer than `seen`; after the time-out with the old one.
struct WatchGroup {
  static constexpr OpInfo op{53, "watch_group", OpKind::wait, Access::observe,
                             1,  Dedup::none,   Growth::none};
  using Body = GroupStatus;

  std::string group;
  std::uint64_t seen = 0;  ///< GroupStatus::number; 0: answer at once
  Duration timeout{0};
};
BOOST_DESCRIBE_STRUCT(WatchGroup, (), (group, seen, timeout))

/// Asks ranks to leave within a time; who has not by then is taken out. Everybody is told. The
/// answer is the notice's number.
struct Notify {
  static constexpr OpInfo op{54, "notify",     OpKind::write, Access::join,
                             1,  Dedup::reply, Growth::little};
  using Body = Counted;

  std::string group;
  Notice::Kind kind = Notice::Kind::drain;
  std::vector<Rank> ranks;  ///< of the current generation
  std::string host;         ///< also all ranks of this host
  Duration deadline{0};     ///< 0: never
  std::string reason;
};
BOOST_DESCRIBE_STRUCT(Notify, (), (group, kind, ranks, host, deadline, reason))

/// The caller has seen a notice that names it.
struct Acknowledge {
  static constexpr OpInfo op{55, "acknowledge", OpKind::write, Access::join,
                             1,  Dedup::reply,  Growth::none};
  using Body = Done;

  std::string group;
  std::uint64_t notice = 0;
};
BOOST_DESCRIBE_STRUCT(Acknowledge, (), (group, notice))

/// What the caller is doing. With a limit it promises the next report within it: a member that
/// lets it pass is `stalled`, and everybody is told.
struct Progress {
  static constexpr OpInfo op{56, "progress",  OpKind::event, Access::join,
                             1,  Dedup::none, Growth::none};
  using Body = Done;

  std::string group;
  std::uint64_t generation = 0;
  std::string phase;  ///< forward, backward, checkpoint, ...
  std::uint64_t step = 0;
  Duration limit{0};  ///< 0: none
};
BOOST_DESCRIBE_STRUCT(Progress, (), (group, generation, phase, step, limit))

}  // namespace c10dd
