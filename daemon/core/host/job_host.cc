// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/host/job_host.h"

#include <algorithm>
#include <map>

#include "daemon/core/host/commit_gate.h"
#include "daemon/core/job/job.h"
#include "daemon/core/planted.h"
#include "protocol/format.h"

namespace c10dd::core {

JobHost::JobHost(HostLoop& loop, Shell& shell, JobDirectory& directory, GrowthGate& growth,
                 Settings settings)
    : context_{*this, loop, shell, directory, growth, std::move(settings), JobTime(loop.now())},
      table_(context_),
      replies_(context_),
      commits_(context_, table_, deadlines_, replies_, *this),
      loader_(context_, table_, *this),
      moves_(context_, table_, *this) {}

JobHost::~JobHost() = default;

Submitted JobHost::submit(const JobRef& slot, const AttachmentRef& attachment, const CallId& call,
                          const Request& request) {
  if (!mine(slot)) {
    slot->owner.loop().post(
        [slot, attachment, call, request] { slot->owner.submit(slot, attachment, call, request); });
    return Submitted::answered;
  }
  return commits_.submit(slot, attachment, call, request);
}

void JobHost::heard(const JobRef& slot, std::uint64_t connection) {
  if (!mine(slot)) {
    slot->owner.loop().post([slot, connection] { slot->owner.heard(slot, connection); });
  } else if (!slot->dropped) {
    slot->job->heard(connection, context_.now());
  }
}

bool JobHost::charge(const JobRef& job, std::size_t bytes) {
  TurnUse& use = mine(job) ? job->use : foreign_use_;
  use.add(bytes);
  if (mine(job)) table_.touch_quietly(job);
  return use.spent();
}

bool JobHost::spent(const JobRef& job) const {
  return mine(job) ? job->use.spent() : foreign_use_.spent();
}

// Deadlines and finished loads can produce rows. Both are handled before start_batch(), so that the
// batch includes these rows.
void JobHost::end_turn() {
  check_lease();
  const TimePoint time = context_.time.end_turn(context_.loop.now());
  while (const JobRef slot = deadlines_.take_due(time)) {
    if (!slot->dropped && !slot->moving) commits_.perform(slot, slot->job->tick(time));
  }
  loader_.restore_pieces();
  commits_.start_batch();
  commits_.end_turn();
  moves_.hand_over();
  replies_.flush();
  foreign_use_ = {};
}

/// Drops all jobs if the lease does not hold: other daemons may take them over now, so no reply may
/// leave that a client takes for a sign of life from the owner of its job.
void JobHost::check_lease() {
  if (table_.empty() || context_.lease_holds()) return;
  loader_.give_up_all("this daemon could not renew its lease on the shared engine");
}

std::optional<SteadyTime> JobHost::next_wake() const {
  const SteadyTime clock = context_.loop.now();
  if (loader_.has_pieces()) return clock;
  std::optional<SteadyTime> next = commits_.next_batch();
  if (context_.in_fleet() && !table_.empty() && context_.lease_holds()) {
    const SteadyTime at = clock + (context_.fleet.lease_end - context_.loop.boot_now());
    next = next ? std::min(*next, at) : at;
  }
  const std::optional<TimePoint> deadline = deadlines_.next();
  if (deadline && !context_.draining) {
    const Duration left = *deadline - context_.time.now(clock);
    const SteadyTime at = clock + std::clamp(left, Duration::zero(), JobTime::kTurnInterval);
    next = next ? std::min(*next, at) : at;
  }
  return next;
}

void JobHost::drain() {
  context_.draining = true;
  context_.time.stand_still(context_.loop.now());
}

void JobHost::drop(const JobRef& slot, const Failure& reason) {
  if (slot->dropped) return;
  table_.remove(slot);
  loader_.note_dropped(*slot);
  deadlines_.remove(slot);
  // In a fixed order, so that simulated runs are reproducible.
  const auto attached = std::exchange(slot->attached, {});
  const std::map<SessionId, AttachmentRef> in_order(attached.begin(), attached.end());
  for (const auto& [session, attachment] : in_order) {
    const std::shared_ptr<ReplySink> sink = std::exchange(attachment->sink, nullptr);
    sink->end_session(attachment->channel, reason);
  }
  for (const auto& [number, refused] : std::exchange(slot->refused, {}))
    replies_.refuse(refused, reason);
  JobMoves::end(*slot, reason);
}

void JobHost::lose_engine(const std::string& why, bool rolled_back) {
  const std::uint64_t generation = context_.engine->generation;
  engine_lost(why);
  context_.shell.lose_engine(generation, why, rolled_back);
}

void JobHost::engine_lost(const std::string& why) {
  loader_.give_up_all("the engine is being reopened: " + why);
  commits_.engine_lost();
  context_.engine.reset();
}

void JobHost::forget() {
  table_.forget();
  loader_.forget();
  moves_.forget();
  deadlines_.clear();
  replies_.forget();
  commits_.forget();
}

}  // namespace c10dd::core
