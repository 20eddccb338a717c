// SPDX-License-Identifier: Apache-2.0
// The training of a rank that goes on when ranks die and come. Ranks and world size are whatever
// the rendezvous says; after each change everybody continues from the furthest step.
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
  Rank rank = 0;  ///< in the last generation
  std::vector<Epoch> epochs;
  std::uint64_t generations = 0;  ///< that this process took part in
};

/// Prints a line `generation` whenever ranks are dealt, and those of training.h.
ElasticOutcome train_elastic(const std::shared_ptr<Client>& client,
                             const RendezvousOptions& rendezvous, const std::string& backend,
                             const ddp::ReducerOptions& reducer, Network& network,
                             const Split& data, const TrainingOptions& options);

}  // namespace c10dd::digits
