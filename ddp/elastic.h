// SPDX-License-Identifier: Apache-2.0
// Elastic training: continues when members are lost or join. The process group is aborted, the
// remaining and the new members form the next generation, and all of them get the state of the
// member with the most steps. Standard library only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <c10dd/membership.h>
#include <c10dd/process_group.h>
#include <c10dd/tensor.h>

namespace c10dd::ddp {

/// The state of the training that all members share: everything that a step changes.
struct ElasticState {
  /// Broadcast at the start of each generation; the same number, sizes and types on all members.
  std::vector<Tensor> tensors;
  /// Number of steps that `tensors` contains. The body raises it after each complete step.
  std::uint64_t step = 0;
};

/// One generation of the training, as the body gets it. Valid until the body returns.
struct ElasticTurn {
  ProcessGroup& group;
  Generation generation;
  Membership& membership;

  /// Returns true if the body should soon return false, so that the members form the next
  /// generation: new members are waiting, or the generation has ended. Does not block.
  bool should_regroup() const;
};

struct ElasticOptions {
  GroupOptions group = {};
  /// Limit of consecutive generations that end by a failure before this member has completed a
  /// step. When it is reached, run_elastic() throws the last failure.
  std::uint32_t fruitless_max = 3;
};

/// Returns the rank whose state is broadcast: the lowest of those with the highest step.
std::uint32_t state_source(const std::vector<Member>& members);

/// Runs `body` once per generation, on the calling thread, until the training is done. Before each
/// call it opens the group of the generation and broadcasts `state` from state_source().
/// - The body returns true: the training is done; Membership::finish() is called.
/// - The body returns false, throws after its generation has ended, or throws Aborted, Unavailable
///   or TimedOut: Membership::next() is called with the state's step, then the body again.
/// - The body throws anything else, or `fruitless_max` is reached: Membership::fail() is called
///   with the text, and the exception is rethrown.
/// Also throws what Membership::next() throws. The body must not keep anything that refers to the
/// group, such as a Reducer, after it has returned.
void run_elastic(const std::shared_ptr<Membership>& membership, ElasticState& state,
                 const std::function<bool(ElasticTurn&)>& body, const ElasticOptions& options = {});

}  // namespace c10dd::ddp
