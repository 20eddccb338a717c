// SPDX-License-Identifier: Apache-2.0
// What a process group needs before its members can talk: who they are (World) and one exchange
// of addresses (Bootstrap). Standard library only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <c10dd/types.h>

namespace c10dd {

/// One agreed list of members and this process's place in it.
struct World {
  Rank rank = 0;
  Rank size = 1;
  std::uint64_t generation = 0;  ///< raised when members change; groups of two never mix
  std::string name = "world";    ///< unique within the job
  std::string kind = "dp";       ///< what the group is for: dp, tp, pp, ...; a metric label
};

/// Where a member runs, as error texts say it.
struct ProcessAddress {
  std::string host;  ///< empty: not known
  std::uint64_t pid = 0;
};

/// Introduces the members of one group to each other. Implementations are bound to one World.
class Bootstrap {
 public:
  virtual ~Bootstrap() = default;

  /// Called once per rank and generation. Part i of `parts` (one for each rank, own included) goes
  /// to rank i; part i of the answer is what rank i meant for the caller. Blocks until every rank
  /// has called. Throws TimedOut with the names of the missing.
  virtual std::vector<std::string> transpose(std::vector<std::string> parts, Duration timeout) = 0;

  /// Where each rank runs, by rank; asked for once transpose() has returned. Empty: not known.
  virtual std::vector<ProcessAddress> processes() const { return {}; }

  /// Name or address of this machine under which the other members reach it.
  virtual std::string local_address() const = 0;
};

}  // namespace c10dd
