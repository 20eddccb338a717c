// SPDX-License-Identifier: Apache-2.0
// Training that goes on when members die and come: the process group is aborted, the survivors and
// newcomers meet in the next generation, and everybody gets the state of a member that has got
// furthest. Standard library only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <c10dd/membership.h>
#include <c10dd/process_group.h>
#include <c10dd/tensor.h>

namespace c10dd::ddp {

/// What a member must have to take part: everything that a step changes. `step` counts the steps
/// that are in the tensors; the body raises it when a step is complete on this rank.
struct ElasticState {
  std::vector<Tensor> tensors;
  std::uint64_t step = 0;
};

/// One generation of the training.
struct ElasticTurn {
  ProcessGroup& group;
  Generation generation;
  Membership& membership;

  /// Whether somebody waits for a place, or a drain names this rank: a good moment to return.
  bool should_regroup() const;
};

struct ElasticOptions {
  GroupOptions group = {};
  /// Generations in a row without a step, each ended by a failure; then the last one is thrown.
  std::uint32_t fruitless_max = 3;
};

/// The rank whose state counts: of those with the highest step the lowest.
std::uint32_t state_source(const std::vector<Member>& members);

/// Runs `body` until it returns true (the training is done: finish() is called) or throws while its
/// generation is intact (fail() is called with the text). When its generation ends, or it returns
/// false, the members meet again (Membership::next with the state's step), `state` is broadcast
/// from state_source(), and body is called again. A body must not keep what it made of the group.
/// Throws what body threw, and what next() throws.
void run_elastic(const std::shared_ptr<Membership>& membership, ElasticState& state,
                 const std::function<bool(ElasticTurn&)>& body, const ElasticOptions& options = {});

}  // namespace c10dd::ddp
