// SPDX-License-Identifier: Apache-2.0
// In each generation, opens the group, shares the state and runs the body.
#include "ddp/elastic.h"

#include <algorithm>

#include "collectives/generation_end.h"

namespace c10dd::ddp {
namespace {

/// After a collective has failed, run_elastic() gives the daemon this much time to report that the
/// generation has ended. A collective fails as soon as a peer's connection breaks, but the daemon
/// notices the lost member only later.
constexpr std::chrono::seconds kElasticReasonPatience{5};

/// Gives every member the state of the member with the highest step. A collective operation.
void share(ProcessGroup& group, ElasticState& state, const std::vector<Member>& members) {
  const std::uint32_t source = state_source(members);
  for (const Tensor& tensor : state.tensors) group.broadcast(tensor, source);
  state.step = members[source].step;
}

/// Returns true if the end of the generation may have caused the error.
bool is_end(const std::exception& error) {
  const auto* known = dynamic_cast<const Error*>(&error);
  return known != nullptr &&
         (known->code() == Code::aborted || known->code() == Code::stale_generation ||
          known->code() == Code::unavailable || known->code() == Code::timed_out);
}

}  // namespace

bool ElasticContext::should_regroup() const {
  const GroupState state = membership.state();
  return state.waiting > 0 || state.ended(generation.number);
}

std::uint32_t state_source(const std::vector<Member>& members) {
  const auto furthest = std::ranges::max_element(
      members, [](const Member& a, const Member& b) { return a.step < b.step; });
  return furthest == members.end() ? 0 : furthest->rank;
}

void run_elastic(const std::shared_ptr<Membership>& membership, ElasticState& state,
                 const std::function<bool(ElasticContext&)>& body, const ElasticOptions& options) {
  std::uint32_t fruitless = 0;
  for (bool first = true;; first = false) {
    if (!first) membership->next(state.step);
    const Generation generation = membership->generation();
    std::uint64_t before = state.step;
    bool regroup = false;
    try {
      const auto group = ProcessGroup::open(membership, options.group);
      share(*group, state, membership->members());
      before = state.step;  // the broadcast may have changed the step
      ElasticContext context{*group, generation, *membership};
      if (body(context)) {
        group->shutdown();
        return membership->finish();
      }
      regroup = true;
    } catch (const std::exception& error) {
      // Waits for the end of the generation, but only if that end may have caused the error. After
      // any other error, training goes on only if the generation has already ended.
      const Duration patience = is_end(error) ? kElasticReasonPatience : std::chrono::seconds(0);
      const bool ended =
          collectives::await_end(*membership, generation.number, patience).has_value();
      fruitless = state.step > before ? 0 : fruitless + 1;
      if ((!ended && !is_end(error)) || fruitless >= options.fruitless_max) {
        membership->fail(error.what());
        throw;
      }
    }
    if (regroup) fruitless = 0;
  }
}

}  // namespace c10dd::ddp
