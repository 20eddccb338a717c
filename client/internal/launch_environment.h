// SPDX-License-Identifier: Apache-2.0
// The rank of this process, as its launcher gives it in the environment. Pure: equal variables give
// equal results. Errors name the variable, its value, the limit and what to do.
//
// The sources are tried in this order. The first complete source is used, the others are ignored:
//
//   c10dd       C10DD_RANK, C10DD_WORLD_SIZE, C10DD_LOCAL_RANK, C10DD_LOCAL_WORLD_SIZE,
//               C10DD_NODE_RANK
//   torchrun    RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, GROUP_RANK
//   slurm       SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID, SLURM_NODEID
//   openmpi     OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE, OMPI_COMM_WORLD_LOCAL_RANK,
//               OMPI_COMM_WORLD_LOCAL_SIZE
//   pmi         PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS
//   pmix        PMIX_RANK, and the world size from C10DD_WORLD_SIZE or WORLD_SIZE
//   kubernetes  JOB_COMPLETION_INDEX of an indexed Job, and the world size from C10DD_WORLD_SIZE or
//               WORLD_SIZE
//
// A source is complete if it has a rank and a world size. The variables of c10dd and torchrun may
// be set by hand, so a rank without a world size is an error there. Any other source without a
// world size is ignored. An empty variable counts as not set.
//
// The source slurm is also ignored in two cases:
//   - SLURM_STEP_ID is not set, or has the number of a batch script or an interactive shell, and
//     SLURM_NTASKS is above 1: Slurm has set its variables, but srun has not started this process
//   - openmpi or pmi is complete and has a different rank or world size: mpirun has started the
//     ranks, and Slurm's variables describe the task in which mpirun runs
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "protocol/error.h"

namespace c10dd::client {

/// A function that returns the value of an environment variable, or nullptr.
using Environment = std::function<const char*(const char*)>;

/// Returns the environment of this process.
Environment process_environment();

/// The values of the launcher's variables. A missing number is -1, a missing name is empty.
struct LaunchEnvironment {
  std::string source;  ///< name of the source, from the table above; empty if none is complete
  std::int64_t rank = -1;
  std::int64_t world_size = -1;  ///< may be set even if `source` is empty
  std::int64_t local_rank = -1;
  std::int64_t local_world_size = -1;
  std::int64_t node_rank = -1;

  /// Name of the job, from the first of these that is set: C10DD_JOB; TORCHELASTIC_RUN_ID, unless
  /// it is torchrun's default "none"; slurm-<SLURM_JOB_ID>; k8s-<namespace>-<job> from
  /// POD_NAMESPACE (or NAMESPACE) and JOB_NAME.
  std::string job;
  /// Name of the run: C10DD_RUN if this is set. Otherwise a name that differs for each start of the
  /// job. The name joins these parts with dots, without the parts whose variable is not set:
  ///   requeue-<SLURM_RESTART_COUNT>
  ///   step-<SLURM_STEP_ID>                  if the source is slurm
  ///   restart-<TORCHELASTIC_RESTART_COUNT>  if the source is torchrun
  ///   uid-<JOB_UID>                         if the source is kubernetes
  std::string run;

  std::vector<std::string> used;       ///< NAME=VALUE of the variables that were used
  std::vector<std::string> overruled;  ///< NAME=VALUE of ignored variables that contradict `used`
  /// If `source` is empty: why a launcher's variables give no rank, and what to do.
  std::string hint = {};

  /// Returns a text for a log: "rank 3 of 8 from torchrun (RANK=3, WORLD_SIZE=8); overruled:
  /// SLURM_PROCID=0". Without a source, the text ends with the hint.
  std::string summary() const;
};

/// Reads the environment by the rules above. Fails with invalid_argument.
Result<LaunchEnvironment> read_launch_environment(const Environment& environment);

}  // namespace c10dd::client
