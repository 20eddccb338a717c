// SPDX-License-Identifier: Apache-2.0
// Which collective a rank is in while it waits for the others. Part of the table in ops.h.
//
// A rank that has waited long publishes its call and repeats that while it waits; who gives up asks
// for the calls of all. They are never durable, each is forgotten limits::kPublishedCallLife after
// it was published last.
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

/// One collective as its rank has issued it. The names are the client's.
struct PublishedCall {
  std::uint64_t sequence = 0;  ///< among the collectives of the process group, from 0
  std::string collective;      ///< all_reduce, broadcast, ...
  std::string dtype;           ///< float32, ...; empty: it moves no data
  std::uint64_t count = 0;     ///< elements per rank
  std::string reduce_op;       ///< sum, max, ...; empty: it does not reduce
  std::int64_t root = -1;      ///< -1: it has none

  auto operator<=>(const PublishedCall&) const = default;
};
BOOST_DESCRIBE_STRUCT(PublishedCall, (), (sequence, collective, dtype, count, reduce_op, root))

/// Some ranks. `ranges` are the first limits::kMissingNamed ranges of them.
struct SomeRanks {
  std::uint64_t count = 0;
  std::vector<RankRange> ranges;
};
BOOST_DESCRIBE_STRUCT(SomeRanks, (), (count, ranges))

/// A call, and who is in it.
struct SharedCall {
  PublishedCall call;
  SomeRanks ranks;
};
BOOST_DESCRIBE_STRUCT(SharedCall, (), (call, ranks))

/// Answer of read_calls.
struct PublishedCalls {
  std::vector<SharedCall> calls;  ///< the fewest ranks first; at most limits::kCallsRead
  std::uint32_t skipped = 0;      ///< how many calls there are besides these
  SomeRanks silent;               ///< who has published none
};
BOOST_DESCRIBE_STRUCT(PublishedCalls, (), (calls, skipped, silent))

/// This rank is in that call of the process group, or not any more. It replaces what the rank has
/// published for this group before.
struct PublishCall {
  static constexpr OpInfo op{65, "publish_call", OpKind::event, Access::use,
                             1,  Dedup::none,    Growth::none};
  using Body = Done;

  std::uint64_t process_group = 0;  ///< a random number that its ranks share
  Rank rank = 0;
  PublishedCall call;
  bool ended = false;
};
BOOST_DESCRIBE_STRUCT(PublishCall, (), (process_group, rank, call, ended))

/// Who of the process group is in which call now.
struct ReadCalls {
  static constexpr OpInfo op{66, "read_calls", OpKind::read, Access::observe,
                             1,  Dedup::none,  Growth::none};
  using Body = PublishedCalls;

  std::uint64_t process_group = 0;
  std::uint32_t world_size = 0;
};
BOOST_DESCRIBE_STRUCT(ReadCalls, (), (process_group, world_size))

}  // namespace c10dd
