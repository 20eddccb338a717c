// SPDX-License-Identifier: Apache-2.0
// Barriers of ranks, with and without data. Part of the table in ops.h.
#pragma once

#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>
#include <string>
#include <vector>

#include "protocol/op_info.h"
#include "protocol/replies.h"
#include "protocol/types.h"

namespace c10dd {

/// Waits until all ranks of (name, generation, sequence) have arrived. Either all ranks are
/// released, or all fail with the same outcome (Failure::recorded). The first time-out breaks the
/// barrier, also for ranks that arrive later; the failure names the missing ranks. With timeout 0
/// the rank arrives and does not wait. With a `group` the barrier is bound to that group's
/// generation: fails with stale_generation if the group has a newer one, and breaks at once when a
/// participant is lost.
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
  std::string group = {};  ///< whose generation `generation` is; empty: not bound to a group
  /// Ranks in `group` of the participants: ascending, the same list from each; empty: all ranks.
  std::vector<Rank> participants = {};
};
BOOST_DESCRIBE_STRUCT(Barrier, (),
                      (name, generation, sequence, rank, world_size, timeout, group, participants))

/// Which parts each of the N ranks of an exchange gives and gets.
enum class Shape : std::uint8_t {
  all,        ///< each rank gives 1 part; each gets all N
  to_root,    ///< each rank gives 1 part; the root gets all N, the others get none
  from_root,  ///< the root gives N parts (rank r gets the r-th) or 1 part (each gets it)
  transpose,  ///< each rank gives N parts; rank r gets the r-th part of each
};
BOOST_DESCRIBE_ENUM(Shape, all, to_root, from_root, transpose)

/// A barrier that carries data. A request with `offset` > 0 has no parts: it fetches the rest of
/// the reply from that offset on.
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
