// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/rank_process.h"

#include <algorithm>

#include "protocol/format.h"

namespace c10dd::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

/// What must be equal on all ranks for an operation to end. Ranks with different reductions go on,
/// with wrong results.
std::string print_of(const Operation& operation) {
  return format("{} {} {} {}", static_cast<int>(operation.collective), operation.common().count,
                static_cast<int>(operation.common().dtype), operation.root);
}

}  // namespace

bool SimGroup::has(Rank rank) const { return std::ranges::count(ranks, rank) > 0; }

Rank SimGroup::rank_of(Rank job_rank) const {
  return static_cast<Rank>(std::ranges::find(ranks, job_rank) - ranks.begin());
}

void Fabric::arrive(const std::string& key, const std::string& print, std::size_t parties,
                    const std::shared_ptr<RankProcess>& rank, std::function<void()> done) {
  std::vector<Arrival>& all = arrivals_[key];
  all.push_back({rank, print, std::move(done)});
  if (all.size() < parties || hung_) return;
  const bool equal = std::ranges::all_of(all, [&](const Arrival& one) {
    const auto living = one.rank.lock();
    return one.print == print && living && living->works();
  });
  if (!equal) return;
  for (Arrival& one : all) {
    world_.after(world_.random.between(microseconds(20), milliseconds(2)), std::move(one.done));
  }
  arrivals_.erase(key);
}

CollectiveCall::Clock::time_point RankProcess::clock() const {
  return CollectiveCall::Clock::time_point(world_.now().time_since_epoch());
}

void RankProcess::run(const std::vector<SimGroup>& groups) {
  for (const SimGroup& group : groups) {
    if (!group.has(rank_)) continue;
    const Rank rank = group.rank_of(rank_);
    const auto size = static_cast<std::uint32_t>(group.ranks.size());
    auto hook = std::make_shared<collectives::ActivityHook>();
    groups_[group.id] = {&group, hook, 0, 0};
    const std::weak_ptr<RankProcess> self = weak_from_this();
    reports_.open({.opened = {.process_group = group.id,
                              .name = group.name,
                              .kind = group.name,
                              .generation = 1,
                              .size = size,
                              .rank = rank,
                              .job_rank = rank_},
                   .read = [this, hook] { return read(*hook); },
                   .hopeless =
                       [this](const ActivityDiagnosis& found) {
                         given_up_ = found.sentence;
                         given_up_at_ = world_.now();
                       }});
  }
  report();
  next_call();
}

/// Reads how far a group has come. Its age is counted in the time of the world.
client::ReadGroup RankProcess::read(const collectives::ActivityHook& hook) const {
  client::ReadGroup group = hook.read();
  for (UnfinishedOperation& one : group.activity.oldest) one.age = world_.now() - *issued_at_;
  return group;
}

/// Does something now, or when the process is no longer paused. A dead one does nothing.
void RankProcess::when_working(std::function<void()> what) {
  if (client_->dead()) return;
  if (works()) return what();
  world_.after(milliseconds(10), [self = shared_from_this(), what = std::move(what)]() mutable {
    self->when_working(std::move(what));
  });
}

void RankProcess::next_call() {
  PlannedCall planned = program_(*this);
  if (planned.group == nullptr) return;
  const Duration compute = planned.compute;
  world_.after(compute, [self = shared_from_this(), planned = std::move(planned)]() mutable {
    self->when_working([self, planned = std::move(planned)] { self->issue(planned); });
  });
}

void RankProcess::issue(PlannedCall planned) {
  Group& group = groups_.at(planned.group->id);
  const bool message = info_of(planned.operation.collective).message;
  call_ = {};
  call_.operation = std::move(planned.operation);
  call_.operation.timeout = std::chrono::minutes(10);
  call_.operation.sequence = message ? group.messages++ : group.collectives++;
  call_.enqueued = clock();
  issued_at_ = world_.now();
  ++calls_;
  group.hook->enqueued(call_);
  if (planned.queued) return;  // and nothing ends
  call_.started = call_.begun = clock();
  group.hook->started(call_);
  group.hook->begun(call_);
  std::string key = format("{} {}", group.of->id, call_.operation.sequence);
  std::size_t parties = group.of->ranks.size();
  std::string print = print_of(call_.operation);
  if (message) {
    const Rank own = group.of->rank_of(rank_);
    const Rank peer = call_.operation.peer;
    const bool sends = call_.operation.collective == Collective::send;
    key = format("{} from {} to {}", group.of->id, sends ? own : peer, sends ? peer : own);
    parties = 2;
    print.clear();
  }
  const auto done = [self = shared_from_this(), &group] {
    self->when_working([self, &group] { self->ended(group); });
  };
  if (planned.ends_alone) return world_.after(milliseconds(1), done);
  fabric_.arrive(key, print, parties, shared_from_this(), done);
}

void RankProcess::ended(Group& group) {
  call_.finished = clock();
  group.hook->finished(call_);
  issued_at_.reset();
  next_call();
}

/// Reports as client::Connection does: only while there is a session, and one report at a time.
void RankProcess::report() {
  if (client_->dead()) return;
  const auto self = shared_from_this();
  world_.after(client::ActivityReports::kPeriod, [self] { self->report(); });
  if (!works()) return;
  if (asked_ && records_.ops[*asked_].answered != 0) {
    reports_.replied(*records_.ops[*asked_].reply, world_.now());
    asked_.reset();
  }
  if (asked_ || !client_->core().open()) return;
  const std::uint64_t connects = client_->core().stats(world_.now()).connects;
  auto report = reports_.next(connects != reported_in_, issued_at_.has_value(), world_.now());
  reported_in_ = connects;
  if (!report) return;
  client_->ask(std::move(*report));
  asked_ = records_.ops.size() - 1;
}

}  // namespace c10dd::sim
