// SPDX-License-Identifier: Apache-2.0
// The rank of this process, as its launcher gives it in the environment. Pure: equal variables give
// equal results. Errors name the variable, its value, the limit and what to do.
//
// The sources, in this order. The first one that is complete is used, the others are ignored:
//
//   c10dd       C10DD_RANK, C10DD_WORLD_SIZE, C10DD_LOCAL_RANK, C10DD_LOCAL_WORLD_SIZE,
//               C10DD_NODE_RANK
//   torchrun    RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, GROUP_RANK
//   slurm       SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID, SLURM_NODEID; not in an interactive
//               shell, which has these variables, too (SLURM_JOB_NAME is bash or interactive); not
//               if openmpi or pmi is complete and has another rank or size: then mpirun was started
//               by one Slurm task
//   openmpi     OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE, OMPI_COMM_WORLD_LOCAL_RANK,
//               OMPI_COMM_WORLD_LOCAL_SIZE
//   pmi         PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS
//   pmix        PMIX_RANK, with the size of C10DD_WORLD_SIZE or WORLD_SIZE
//   kubernetes  JOB_COMPLETION_INDEX of an indexed Job, with the size of C10DD_WORLD_SIZE or
//               WORLD_SIZE
//
// A rank without its size is an error for c10dd and torchrun, whose variables people set by hand;
// the other sources are ignored then. An empty variable counts as not set.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "protocol/error.h"

namespace c10dd::client {

/// Returns the value of an environment variable, or nullptr.
using Environment = std::function<const char*(const char*)>;

/// Returns the environment of this process.
Environment process_environment();

/// What the launcher gives. Numbers that it does not give are -1, names are empty.
struct LaunchEnvironment {
  std::string source;  ///< a name of the table above; empty: no launcher
  std::int64_t rank = -1;
  std::int64_t world_size = -1;  ///< without a source from C10DD_WORLD_SIZE or WORLD_SIZE, if set
  std::int64_t local_rank = -1;
  std::int64_t local_world_size = -1;
  std::int64_t node_rank = -1;

  /// C10DD_JOB, TORCHELASTIC_RUN_ID (unless it is "none", which torchrun calls every job), or
  /// slurm-<SLURM_JOB_ID>, or k8s-<namespace>-<job> from POD_NAMESPACE (or NAMESPACE) and JOB_NAME.
  std::string job;
  /// C10DD_RUN, or what distinguishes the incarnations of that job: requeue-<SLURM_RESTART_COUNT>,
  /// step-<SLURM_STEP_ID> when Slurm is the source, restart-<TORCHELASTIC_RESTART_COUNT> when
  /// torchrun is, uid-<JOB_UID> in Kubernetes; several are joined by dots.
  std::string run;

  std::vector<std::string> used;       ///< NAME=VALUE of the variables that were used
  std::vector<std::string> overruled;  ///< NAME=VALUE of other sources whose values differ

  /// Returns a text for a log: "rank 3 of 8 from torchrun (RANK=3, WORLD_SIZE=8); overruled:
  /// SLURM_PROCID=0".
  std::string summary() const;
};

/// Reads the environment by the rules above. Fails with invalid_argument.
Result<LaunchEnvironment> read_launch_environment(const Environment& environment);

}  // namespace c10dd::client
