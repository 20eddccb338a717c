// SPDX-License-Identifier: Apache-2.0
// From the nodes of a generation to the ranks of this node's workers and to what their environment
// says. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "client/launcher/options.h"
#include "client/membership.h"

namespace c10dd::run {

/// This node's part of one generation.
struct Plan {
  std::uint64_t generation = 0;
  std::uint32_t restarts = 0;  ///< after failures, of this launch
  std::uint32_t node_rank = 0;
  std::uint32_t nodes = 1;
  std::uint32_t first_rank = 0;  ///< the workers here have this one and the following
  std::uint32_t local_size = 1;
  std::uint32_t world_size = 1;
  std::string master_address;
  std::string master_port;
  std::string nonce;   ///< chosen anew for each generation
  std::string launch;  ///< names this launch, the same on all nodes: a folder of the log files
};

/// Port, nonce, restarts and launch are left open. members: by node rank; their labels are those of
/// member_labels(). Throws Fatal naming the node that is wrong.
Plan make_plan(const Generation& generation, const std::vector<Member>& members);

/// What an agent says of its node.
std::map<std::string, std::string> member_labels(const Options& options,
                                                 const std::string& address);

/// The run of the workers: keys and sessions of two generations never mix, whatever the daemon has
/// forgotten.
std::string worker_run(const std::string& run, const Plan& plan);

/// NAME=VALUE for one worker: `inherited`, with everything that torchrun sets and our own.
std::vector<std::string> worker_environment(const std::map<std::string, std::string>& inherited,
                                            const Options& options, const Plan& plan,
                                            std::uint32_t local_rank,
                                            const std::string& error_file);

}  // namespace c10dd::run
