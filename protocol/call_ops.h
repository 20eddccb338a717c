// SPDX-License-Identifier: Apache-2.0
// Operations to publish and read collective calls of ranks. Part of the operation table in ops.h.
//
// A rank that has waited long in a collective call publishes the call, and publishes it again from
// time to time while it waits. A rank whose collective call failed reads the calls of all ranks.
// The daemon keeps the calls in memory only. The daemon forgets a call that was last published more
// than limits::kPublishedCallLife ago.
#pragma once

#include <boost/describe/class.hpp>
#include <compare>
#include <string>
#include <vector>

#include "protocol/op_info.h"
#include "protocol/rank_ranges.h"
#include "protocol/replies.h"
#include "protocol/types.h"

namespace c10dd {

/// One collective call that a rank has issued. The client chooses the names in the text fields.
struct PublishedCall {
  std::uint64_t sequence = 0;  ///< index among the collectives of the process group, from 0
  std::string collective;      ///< all_reduce, broadcast, ...
  std::string dtype;           ///< float32, ...; empty: the call moves no data
  std::uint64_t count = 0;     ///< elements per rank
  std::string reduce_op;       ///< sum, max, ...; empty: the call does not reduce
  std::int64_t root = -1;      ///< -1: the call has no root

  auto operator<=>(const PublishedCall&) const = default;
};
BOOST_DESCRIBE_STRUCT(PublishedCall, (), (sequence, collective, dtype, count, reduce_op, root))

/// A set of `count` ranks. `ranges` holds the set's first ranges, at most limits::kMissingNamed.
struct SomeRanks {
  std::uint64_t count = 0;
  std::vector<RankRange> ranges;
};
BOOST_DESCRIBE_STRUCT(SomeRanks, (), (count, ranges))

/// A call and the ranks that wait in it.
struct SharedCall {
  PublishedCall call;
  SomeRanks ranks;
};
BOOST_DESCRIBE_STRUCT(SharedCall, (), (call, ranks))

/// Reply to read_calls.
struct PublishedCalls {
  std::vector<SharedCall> calls;  ///< sorted: fewest ranks first; at most limits::kCallsRead calls
  std::uint32_t skipped = 0;      ///< number of further calls that are not in `calls`
  SomeRanks silent;               ///< ranks that have published no call
};
BOOST_DESCRIBE_STRUCT(PublishedCalls, (), (calls, skipped, silent))

/// Publishes the call in which this rank of a process group waits. Replaces the call that the rank
/// published before for the same process group. If `ended`, removes that call and publishes none.
struct PublishCall {
  static constexpr OpInfo op{65, "publish_call", OpKind::event, Access::use,
                             1,  Dedup::none,    Growth::none};
  using Body = Done;

  std::uint64_t process_group = 0;  ///< a random number that the ranks of the group share
  Rank rank = 0;
  PublishedCall call;
  bool ended = false;
};
BOOST_DESCRIBE_STRUCT(PublishCall, (), (process_group, rank, call, ended))

/// Asks for the published calls of a process group, and for the ranks that wait in each call.
struct ReadCalls {
  static constexpr OpInfo op{66, "read_calls", OpKind::read, Access::observe,
                             1,  Dedup::none,  Growth::none};
  using Body = PublishedCalls;

  std::uint64_t process_group = 0;
  std::uint32_t world_size = 0;
};
BOOST_DESCRIBE_STRUCT(ReadCalls, (), (process_group, world_size))

}  // namespace c10dd
