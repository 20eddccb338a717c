// SPDX-License-Identifier: Apache-2.0
// Runs collective operations with blocking calls of MPI, which are faster than the non-blocking
// ones of Open MPI 4.
#pragma once

#include <mpi.h>

#include "collectives/operation.h"
#include "protocol/error.h"

namespace c10dd::collectives::mpi {

/// Runs an operation that is not a message. Blocks until it has ended; nothing can stop it. First
/// checks that all ranks have issued the same operation, which costs an all-reduce of 16 bytes. If
/// they have not, fails with size_mismatch on every rank. Called by one thread at a time for each
/// communicator. Its errors must be MPI_ERRORS_RETURN.
Result<void> run(const Operation& operation, MPI_Comm comm);

}  // namespace c10dd::collectives::mpi
