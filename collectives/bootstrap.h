// SPDX-License-Identifier: Apache-2.0
// World identifies a process group. Bootstrap lets the members of the group learn each other's
// addresses, so that they can connect to each other. Standard library only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <c10dd/types.h>

namespace c10dd {

/// The host and process id of a member, for error texts.
struct ProcessAddress {
  std::string host;       ///< empty: not known
  std::uint64_t pid = 0;  ///< meaningless without a host
};

/// One rank of a process group.
struct GroupMember {
  Rank job_rank = 0;  ///< its rank in the group from which this group was made, or its own rank
  ProcessAddress process = {};
};

/// The identity of a process group, and this process's rank in it.
struct World {
  Rank rank = 0;                 ///< from 0 to size - 1
  Rank size = 1;                 ///< number of ranks
  std::uint64_t generation = 0;  ///< equal on all ranks; increases when the members change
  std::string name = "world";    ///< unique within the job
  std::string kind = "dp";       ///< what the group is for: dp, tp, pp, ...; a metric label
  /// All ranks, in the order of ranks. Set when the group is opened.
  std::vector<GroupMember> members = {};
};

/// Lets the members of one group exchange their addresses. Each rank has a Bootstrap of its own,
/// made for one World. Its methods are called by one thread at a time, while the group is opened.
/// transpose(), all() and from_root() are exchanges: all ranks call the same ones in the same
/// order, once or several times per generation. They block until every rank has called. After
/// `timeout`, they throw TimedOut, which names the missing ranks.
class Bootstrap {
 public:
  virtual ~Bootstrap() = default;

  /// Sends parts[i] to each rank i. Returns the messages that the ranks have sent to this rank:
  /// element i is from rank i. `parts` and the result have one element for each rank, including
  /// this one.
  virtual std::vector<std::string> transpose(std::vector<std::string> parts, Duration timeout) = 0;

  /// Sends `part` to all ranks of `world`, and returns the parts of all ranks, in rank order. The
  /// default is a transpose(), in which each rank sends its part once for each rank.
  virtual std::vector<std::string> all(const World& world, std::string part, Duration timeout);

  /// Returns the part of rank 0 of `world`; the parts of the other ranks do not count. The default
  /// is a transpose().
  virtual std::string from_root(const World& world, std::string part, Duration timeout);

  /// Returns the host and process id of each rank, ordered by rank, or an empty list if they are
  /// not known. Called after an exchange.
  virtual std::vector<ProcessAddress> processes() const { return {}; }

  /// Returns the name or address of this machine under which the other members can reach it.
  virtual std::string local_address() const = 0;
};

}  // namespace c10dd
