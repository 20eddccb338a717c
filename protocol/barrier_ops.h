// SPDX-License-Identifier: Apache-2.0
// Operations on barriers, with and without data. Part of the operation table in ops.h.
#pragma once

#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>
#include <string>
#include <vector>

#include "protocol/op_info.h"
#include "protocol/replies.h"
#include "protocol/types.h"

namespace c10dd {

/// Waits until all ranks of the barrier (name, generation, sequence) have arrived. Either all ranks
/// are released, or all ranks get the same failure (Failure::recorded). The first time-out breaks
/// the barrier for all ranks, including ranks that arrive later. The failure names the missing
/// ranks. With timeout 0, the rank arrives and does not wait.
///
/// If `group` is set, the barrier belongs to the generation `generation` of that group. The request
/// fails with stale_generation if this is not the group's newest generation. The barrier breaks at
/// once when the generation ends, for example because a member is lost. It also breaks at once if a
/// participant has left or finished without arriving.
struct Barrier {
  static constexpr OpInfo op{48, "barrier",      OpKind::wait,  Access::join,
                             1,  Dedup::arrival, Growth::needed};
  using Body = Done;

  std::string name;
  std::uint64_t generation = 0;
  std::uint64_t sequence = 0;  ///< index among the barriers of this name and generation, from 0
  Rank rank = 0;
  std::uint32_t world_size = 0;
  Duration timeout{0};
  std::string group = {};  ///< name of the group to which the barrier belongs; empty: no group
  /// The participants' ranks in `group`, in ascending order. Each participant sends the same list.
  /// If the list is empty, all ranks of the group participate.
  std::vector<Rank> participants = {};
  Duration waited{0};  ///< see Get
};
BOOST_DESCRIBE_STRUCT(Barrier, (),
                      (name, generation, sequence, rank, world_size, timeout, group, participants,
                       waited))

/// The pattern of an exchange between N ranks: what each rank sends, and what each rank receives.
enum class Shape : std::uint8_t {
  all,        ///< each rank sends 1 part and receives all N parts
  to_root,    ///< each rank sends 1 part; the root receives all N parts, the other ranks none
  from_root,  ///< the root sends N parts (rank r receives part r) or 1 part (all receive it)
  transpose,  ///< each rank sends N parts; rank r receives part r of every rank
};
BOOST_DESCRIBE_ENUM(Shape, all, to_root, from_root, transpose)

/// A barrier that carries data. A request with `offset` > 0 sends no parts. It fetches the chunk of
/// the reply that begins at this offset.
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
  Duration waited{0};                   ///< see Get
  /// Of an exchange without a group, if ranks of an earlier launch are still connected, but not
  /// that of `rank`: true to wait until they have left, false to fail.
  bool awaits_earlier = false;
};
BOOST_DESCRIBE_STRUCT(Exchange, (),
                      (name, generation, sequence, rank, world_size, shape, root, parts, timeout,
                       offset, group, participants, waited, awaits_earlier))

}  // namespace c10dd
