// SPDX-License-Identifier: Apache-2.0
// Derives from the nodes of a generation the ranks and the environment of this node's workers.
// Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "client/launcher/options.h"
#include "client/membership.h"

namespace c10dd::run {

/// This node's part of one generation, and the values that all nodes of the generation share.
struct Plan {
  std::uint64_t generation = 0;
  std::uint32_t restarts = 0;  ///< number of restarts of this launch because of failures
  std::uint32_t node_rank = 0;
  std::uint32_t nodes = 1;
  std::uint32_t first_rank = 0;  ///< lowest rank of this node's workers; their ranks are contiguous
  std::uint32_t local_size = 1;
  std::uint32_t world_size = 1;
  std::string master_address;
  std::string master_port;
  std::string nonce;   ///< random, new in each generation
  std::string launch;  ///< name of this launch, the same on all nodes; also names the log folder
};

/// Returns the plan without master_port, nonce, restarts and launch, which the caller sets.
/// `members` are ordered by rank and have the labels that member_labels() returned on their nodes.
/// Throws Fatal if a node did not report its number of workers, or if there are too many workers.
Plan make_plan(const Generation& generation, const std::vector<Member>& members);

/// Returns the labels of this node in the group: the user's labels, "nproc" and "address".
std::map<std::string, std::string> member_labels(const Options& options,
                                                 const std::string& address);

/// Returns the run id of the workers. The id is unique: keys and sessions of two generations never
/// mix, even if the daemon loses its state between the two generations.
std::string worker_run(const std::string& run, const Plan& plan);

/// Returns the environment of one worker, as texts NAME=VALUE: all of `inherited`, and the
/// variables of torchrun and c10dd, which replace inherited variables of the same name.
std::vector<std::string> worker_environment(const std::map<std::string, std::string>& inherited,
                                            const Options& options, const Plan& plan,
                                            std::uint32_t local_rank,
                                            const std::string& error_file);

}  // namespace c10dd::run
