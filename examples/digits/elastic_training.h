// SPDX-License-Identifier: Apache-2.0
// The training of one process, which continues when other processes die or join. The rendezvous
// assigns rank and world size; after each change all members continue from the highest step.
#pragma once

#include <memory>
#include <vector>

#include <c10dd/client.h>
#include <c10dd/membership.h>
#include <c10dd/reducer.h>
#include "examples/digits/network.h"
#include "examples/digits/training.h"

namespace c10dd::digits {

struct ElasticOutcome {
  Rank rank = 0;                  ///< rank of this process in the last generation
  std::vector<Epoch> epochs;      ///< those that this process has finished
  std::uint64_t generations = 0;  ///< number of generations in which this process was a member
};

/// Joins the rendezvous and trains until the last epoch. Blocks until then. Prints a line
/// `generation` at the start of each generation, and the lines of training.h. Throws what
/// ddp::run_elastic() throws.
ElasticOutcome train_elastic(const std::shared_ptr<Client>& client,
                             const RendezvousOptions& rendezvous, const std::string& backend,
                             const ddp::ReducerOptions& reducer, Network& network,
                             const Split& data, const TrainingOptions& options);

}  // namespace c10dd::digits
