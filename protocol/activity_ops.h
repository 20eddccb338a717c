// SPDX-License-Identifier: Apache-2.0
// The operation by which a process tells how far its process groups have come. Part of the
// operation table in ops.h. The daemon keeps the newest report of each rank, in memory only, and
// finds out from all of them who holds the others up (see diagnosis.h).
#pragma once

#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "protocol/op_info.h"
#include "protocol/rank_ranges.h"
#include "protocol/types.h"

namespace c10dd {

/// A process group that a rank has opened.
struct OpenedGroup {
  std::uint64_t process_group = 0;  ///< a random number that the ranks of the group share
  std::string name;
  std::string kind;  ///< dp, tp, pp, ...
  std::uint64_t generation = 0;
  std::uint32_t size = 0;
  Rank rank = 0;      ///< of this process in the group
  Rank job_rank = 0;  ///< of this process in the job
};
BOOST_DESCRIBE_STRUCT(OpenedGroup, (),
                      (process_group, name, kind, generation, size, rank, job_rank))

/// How many operations of one kind (collectives, or sends and receives) a rank has issued.
struct OperationCounts {
  std::uint64_t issued = 0;
  std::uint32_t not_begun = 0;   ///< of these, those with which the backend has not begun
  std::uint32_t unfinished = 0;  ///< of these, those that have not ended
};
BOOST_DESCRIBE_STRUCT(OperationCounts, (), (issued, not_begun, unfinished))

/// An operation that a rank has issued, and that has not ended.
struct UnfinishedOperation {
  enum class Kind : std::uint8_t { collective, send, receive };

  Kind kind = Kind::collective;
  bool begun = false;          ///< the backend has begun with it
  std::uint64_t sequence = 0;  ///< among the collectives, or the messages, of its group, from 0
  Duration age{0};             ///< since it was issued
  Duration usual{0};           ///< how long such an operation usually takes; 0: not known
  std::int64_t peer = -1;      ///< of a message: the other rank of the group; -1: any
  std::string name;            ///< all_reduce, send, ...
  std::string arguments;       ///< "of 1000 float32 sum"; equal on all ranks of a collective
};
BOOST_DESCRIBE_ENUM(UnfinishedOperation::Kind, collective, send, receive)
BOOST_DESCRIBE_STRUCT(UnfinishedOperation, (),
                      (kind, begun, sequence, age, usual, peer, name, arguments))

/// The hash of the arguments of the first `sequence` collectives of a group. Ranks whose hashes of
/// one sequence differ have issued different collectives.
struct HashMark {
  std::uint64_t sequence = 0;
  std::uint64_t hash = 0;
};
BOOST_DESCRIBE_STRUCT(HashMark, (), (sequence, hash))

/// A rank's clock when the first `sequence` collectives of a group had ended, and how much of the
/// time since the group was opened the rank has spent in those that wait for all ranks. The rank
/// for which the others wait spends the least.
struct TimeMark {
  std::uint64_t sequence = 0;
  Duration clock{0};
  Duration waited{0};
};
BOOST_DESCRIBE_STRUCT(TimeMark, (), (sequence, clock, waited))

/// How far a rank has come in one group.
struct GroupActivity {
  std::uint64_t process_group = 0;
  OperationCounts collectives;
  OperationCounts messages;
  /// At most one collective and one message: the oldest of each.
  std::vector<UnfinishedOperation> oldest;
  /// The newest marks, at most limits::kMarksPerActivity of each. Sequences of marks are multiples
  /// of a power of two, which grows while they are reached faster than about every 1.5 seconds, so
  /// that the marks of all ranks meet.
  std::vector<HashMark> hash_marks;
  std::vector<TimeMark> time_marks;
};
BOOST_DESCRIBE_STRUCT(GroupActivity, (),
                      (process_group, collectives, messages, oldest, hash_marks, time_marks))

/// The last collective of a group that a rank has ended.
struct EndedCollective {
  std::uint64_t process_group = 0;
  std::uint64_t sequence = 0;
  std::string name;
  std::string arguments;  ///< as UnfinishedOperation::arguments
};
BOOST_DESCRIBE_STRUCT(EndedCollective, (), (process_group, sequence, name, arguments))

/// Reply to activity: what the daemon has found out, as far as it concerns a group of the session.
struct ActivityDiagnosis {
  std::uint8_t state = 0;               ///< Diagnosis::State; the rest is empty if it is `running`
  std::string sentence;                 ///< Diagnosis::sentence
  std::vector<RankRange> ranks;         ///< of the job: the cause, as far as their ranks are known
  std::vector<std::uint64_t> groups;    ///< the session's process groups that it concerns
  std::vector<std::uint64_t> hopeless;  ///< of these, those that can never go on: to be aborted
};
BOOST_DESCRIBE_STRUCT(ActivityDiagnosis, (), (state, sentence, ranks, groups, hopeless))

/// Tells how far groups of this session have come. A group that is not named is as before.
struct Activity {
  static constexpr OpInfo op{68, "activity",  OpKind::event, Access::use,
                             1,  Dedup::none, Growth::none};
  using Body = ActivityDiagnosis;

  std::vector<OpenedGroup> opened;    ///< all open groups after each connect, otherwise new ones
  std::vector<std::uint64_t> closed;  ///< process groups that this rank has closed
  std::vector<GroupActivity> groups;  ///< at most limits::kGroupsPerActivity
  /// For a second, all threads of the process that issue operations have waited for the end of one,
  /// and none has ended, so none of them can issue what another rank waits for.
  bool blocked = false;
  /// An operation of the first group has timed out: asks for the cause now.
  bool timed_out = false;
  /// Of `groups`, told once, and only while an operation of the process is old: the other ranks may
  /// wait in another collective of this sequence.
  std::vector<EndedCollective> ended;
  /// Of `groups`, those of which this process can issue nothing now: for a second, all its threads
  /// that have issued operations of the group have been in the same waits for other ranks, in
  /// operations of any group, barriers, exchanges or joins.
  std::vector<std::uint64_t> blocked_groups;
};
BOOST_DESCRIBE_STRUCT(Activity, (),
                      (opened, closed, groups, blocked, timed_out, ended, blocked_groups))

}  // namespace c10dd
