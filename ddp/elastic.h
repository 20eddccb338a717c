// SPDX-License-Identifier: Apache-2.0
// Keeps a training going when members are lost or new members join. In both cases the process group
// is aborted, the remaining and the new members form the next generation, and all members get the
// state of the member with the highest step. Uses only the standard library.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <c10dd/membership.h>
#include <c10dd/process_group.h>
#include <c10dd/tensor.h>

namespace c10dd::ddp {

/// The state of the training: everything that a step changes. All members have the same state.
struct ElasticState {
  /// Broadcast in each generation. All members must have the same number of tensors, in the same
  /// order and with the same sizes and types.
  std::vector<Tensor> tensors;
  /// Number of completed training steps. `tensors` is the state after these steps. The body
  /// increments `step` after each complete step.
  std::uint64_t step = 0;
};

/// The arguments of the body for one generation of the training. Valid until the body returns.
struct ElasticContext {
  ProcessGroup& group;
  Generation generation;
  Membership& membership;

  /// Returns true if new members are waiting or the generation has ended. The body should then soon
  /// return false, so that the members form the next generation. Does not block.
  bool should_regroup() const;
};

struct ElasticOptions {
  GroupOptions group = {};
  /// A generation is fruitless if it fails before this member has completed a step of the
  /// generation. After this many fruitless ones in a row, run_elastic() rethrows the last failure.
  std::uint32_t fruitless_max = 3;
};

/// Returns the rank whose state is broadcast: the lowest of the ranks that have the highest step.
std::uint32_t state_source(const std::vector<Member>& members);

/// Runs `body` once per generation, on the calling thread, until the training is done. Before each
/// run, opens the group of the generation and broadcasts `state` from rank state_source().
/// - If the body returns true, run_elastic() calls Membership::finish() and returns.
/// - If the body returns false, run_elastic() calls Membership::next() with `state.step`, and then
///   runs the body again.
/// - If the body throws Aborted, StaleGeneration, Unavailable or TimedOut, run_elastic() goes on as
///   if the body had returned false. The same applies to any other exception that the body throws
///   after the generation has ended.
/// - After every other exception, and after `fruitless_max` fruitless generations in a row,
///   run_elastic() calls Membership::fail() with the exception's text, and rethrows the exception.
///
/// Treats a failure to open the group, to broadcast or to finish like an exception of the body.
/// Also throws the exceptions of Membership::next(). The body must not keep anything that refers to
/// the group, such as a Reducer, after it has returned.
void run_elastic(const std::shared_ptr<Membership>& membership, ElasticState& state,
                 const std::function<bool(ElasticContext&)>& body,
                 const ElasticOptions& options = {});

}  // namespace c10dd::ddp
