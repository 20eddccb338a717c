// SPDX-License-Identifier: Apache-2.0
// Which rank this process is, as its launcher tells it through the environment. Pure: equal
// variables give equal answers. Errors name the variable, its value, the limit and what to do.
//
// The sources in their order; the first that is complete wins, and it alone is believed:
//
//   c10dd       C10DD_RANK, C10DD_WORLD_SIZE, C10DD_LOCAL_RANK, C10DD_LOCAL_WORLD_SIZE,
//               C10DD_NODE_RANK
//   torchrun    RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, GROUP_RANK
//   slurm       SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID, SLURM_NODEID; not in an interactive
//               shell (SLURM_JOB_NAME is bash or interactive), which has them too. And not above an
//               mpirun: when the next two are complete and differ, they are of the inner launcher
//   openmpi     OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE, OMPI_COMM_WORLD_LOCAL_RANK,
//               OMPI_COMM_WORLD_LOCAL_SIZE
//   pmi         PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS
//   pmix        PMIX_RANK, with the size of C10DD_WORLD_SIZE or WORLD_SIZE
//   kubernetes  JOB_COMPLETION_INDEX of an indexed Job, likewise
//
// A rank without its size is an error for the first two (somebody set them by hand and forgot one)
// and no source for the others. An empty variable counts as not set.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "protocol/error.h"

namespace c10dd::client {

/// The value of an environment variable, or nullptr.
using Environment = std::function<const char*(const char*)>;

/// That of this process.
Environment process_environment();

/// What the launcher says. Numbers are -1, and names empty, when it does not.
struct LaunchEnvironment {
  std::string source;  ///< a name of the table above; empty: no launcher
  std::int64_t rank = -1;
  std::int64_t world_size = -1;  ///< also without a source, from C10DD_WORLD_SIZE or WORLD_SIZE
  std::int64_t local_rank = -1;
  std::int64_t local_world_size = -1;
  std::int64_t node_rank = -1;

  /// C10DD_JOB, TORCHELASTIC_RUN_ID (unless it is "none", which torchrun calls every job), or
  /// slurm-<SLURM_JOB_ID>, or k8s-<namespace>-<job> from POD_NAMESPACE (or NAMESPACE) and JOB_NAME.
  std::string job;
  /// C10DD_RUN, or what tells the incarnations of that job apart: requeue-<SLURM_RESTART_COUNT>,
  /// step-<SLURM_STEP_ID> when Slurm is the source, restart-<TORCHELASTIC_RESTART_COUNT> when
  /// torchrun is, uid-<JOB_UID> in Kubernetes; several are joined by dots.
  std::string run;

  std::vector<std::string> used;       ///< NAME=VALUE of what the above was taken from
  std::vector<std::string> overruled;  ///< NAME=VALUE of other sources that say otherwise

  /// For a log: "rank 3 of 8 from torchrun (RANK=3, WORLD_SIZE=8); overruled: SLURM_PROCID=0".
  std::string summary() const;
};

Result<LaunchEnvironment> read_launch_environment(const Environment& environment);

}  // namespace c10dd::client
