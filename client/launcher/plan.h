// SPDX-License-Identifier: Apache-2.0
// Computes the ranks and the environment of this node's workers. The input is the list of the nodes
// of a generation. All functions are pure.
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
  std::uint32_t restarts = 0;  ///< how often failures have restarted this launch
  std::uint32_t node_rank = 0;
  std::uint32_t nodes = 1;
  std::uint32_t first_rank = 0;  ///< lowest rank of this node's workers; their ranks are contiguous
  std::uint32_t local_size = 1;
  std::uint32_t world_size = 1;
  std::string master_address;   ///< of rank 0, for a server of its own
  std::string master_port;      ///< free on the node of rank 0
  bool store_in_rank0 = false;  ///< Options::store_in_rank0 of node 0
  std::string store_port = {};  ///< of this node's proxy; empty if the store is in rank 0
  /// OMP_NUM_THREADS of each worker, unless it is inherited; 0: not set. Otherwise every worker
  /// would use all cores.
  std::uint32_t threads = 0;
  std::string nonce;   ///< random, new in each generation
  std::string launch;  ///< name of this launch, the same on all nodes; also names the log folder
};

/// Returns this node's plan. The caller must set Plan::master_port, threads, nonce, restarts and
/// launch.
/// `members` must be ordered by rank and must have joined with the labels from member_labels().
/// Throws Fatal if a node did not report its number of workers, or if there are too many workers.
Plan make_plan(const Generation& generation, const std::vector<Member>& members);

/// Returns this node's labels in the group: "nproc", "address", and the labels that the user gave.
std::map<std::string, std::string> member_labels(const Options& options,
                                                 const std::string& address);

/// Returns the run id of the workers. Each generation has a different id, so the keys and sessions
/// of two generations never mix, even if the daemon loses its state after the first generation.
std::string worker_run(const std::string& run, const Plan& plan);

/// Returns the environment of one worker, as texts NAME=VALUE: `inherited`, with the variables of
/// torchrun and c10dd set to their values for this worker. Keeps an inherited OMP_NUM_THREADS.
std::vector<std::string> worker_environment(const std::map<std::string, std::string>& inherited,
                                            const Options& options, const Plan& plan,
                                            std::uint32_t local_rank,
                                            const std::string& error_file);

}  // namespace c10dd::run
