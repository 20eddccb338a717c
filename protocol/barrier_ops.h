// SPDX-License-Identifier: Apache-2.0
// Where ranks wait for each other, with and without data. Part of the table in ops.h.
#pragma once

#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>
#include <string>
#include <vector>

#include "protocol/op_info.h"
#include "protocol/replies.h"
#include "protocol/types.h"

namespace c10dd {

/// Released when all ranks of (name, generation, sequence) have arrived: all are released, or all
/// fail with the same recorded outcome (Failure::recorded). The first time-out breaks it, for those
/// who come later too; the failure names the missing ranks. With time-out 0 it only arrives and
/// looks. With a `group` it is bound to that group's generation: stale_generation when there is a
/// newer one, and broken at once when a participant is lost.
struct Barrier {
  static constexpr OpInfo op{48, "barrier",      OpKind::wait,  Access::join,
                             1,  Dedup::arrival, Growth::needed};
  using Body = Done;

  std::string name;
  std::uint64_t generation = 0;
  std::uint64_t sequence = 0;  ///< counts the barriers of this name and generation from 0
  Rank rank = 0;
  std::uint32_t world_size = 0;
  Duration timeout{0};
  std::string group = {};  ///< the group whose generation this is; empty: none
  /// Ranks in `group` of those who meet, ascending, the same for everybody; empty: all of them.
  std::vector<Rank> participants = {};
};
BOOST_DESCRIBE_STRUCT(Barrier, (),
                      (name, generation, sequence, rank, world_size, timeout, group, participants))

/// Who gives and who gets what in an exchange of N ranks.
enum class Shape : std::uint8_t {
  all,        ///< each rank gives 1 part; everybody gets all N
  to_root,    ///< each rank gives 1 part; the root gets all N, the others none
  from_root,  ///< the root gives N parts (each rank gets its own) or 1 (everybody gets it)
  transpose,  ///< each rank gives N parts; rank r gets the N meant for it
};
BOOST_DESCRIBE_ENUM(Shape, all, to_root, from_root, transpose)

/// A barrier that carries data. With offset > 0 it fetches the rest of an answer and brings no
/// parts.
struct Exchange {
  static constexpr OpInfo op{49, "exchange",     OpKind::wait, Access::join,
                             1,  Dedup::arrival, Growth::much};
  using Body = Exchanged;

  std::string name;
  std::uint64_t generation = 0;
  std::uint64_t sequence = 0;
  Rank rank = 0;
  std::uint32_t world_size = 0;
  Shape shape = Shape::all;
  Rank root = 0;
  std::vector<Bytes> parts;
  Duration timeout{0};
  std::uint64_t offset = 0;
  std::string group = {};               ///< as in Barrier
  std::vector<Rank> participants = {};  ///< as in Barrier
};
BOOST_DESCRIBE_STRUCT(Exchange, (),
                      (name, generation, sequence, rank, world_size, shape, root, parts, timeout,
                       offset, group, participants))

}  // namespace c10dd
