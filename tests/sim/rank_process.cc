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
  if (all.size() == parties) end(key);
}

void Fabric::end(const std::string& key) {
  std::vector<Arrival>& all = arrivals_.at(key);
  const bool equal = std::ranges::all_of(
      all, [&](const Arrival& one) { return one.print == all.front().print && one.lives(); });
  if (hung_ || !equal) return;
  if (!std::ranges::all_of(all, [](const Arrival& one) { return one.rank.lock()->works(); })) {
    world_.after(milliseconds(10), [this, key] { end(key); });
    return;
  }
  for (Arrival& one : all) {
    world_.after(world_.random.between(microseconds(20), milliseconds(2)), std::move(one.done));
  }
  arrivals_.erase(key);
}

bool Fabric::Arrival::lives() const {
  const auto living = rank.lock();
  return living && !living->client().dead();
}

CollectiveCall::Clock::time_point RankProcess::clock() const {
  return CollectiveCall::Clock::time_point(world_.now().time_since_epoch());
}

std::optional<TimePoint> RankProcess::in_operation_since() const {
  std::optional<TimePoint> since;
  for (const Thread& thread : threads_) {
    if (!thread.issued_at) return std::nullopt;
    since = std::max(since.value_or(*thread.issued_at), *thread.issued_at);
  }
  return since;
}

void RankProcess::run(const std::vector<SimGroup>& groups, std::size_t threads) {
  threads_.resize(threads);
  for (const SimGroup& group : groups) {
    if (!group.has(rank_)) continue;
    const Rank rank = group.rank_of(rank_);
    const auto size = static_cast<std::uint32_t>(group.ranks.size());
    auto hook = std::make_shared<collectives::ActivityHook>();
    groups_[group.id] = {&group, hook, 0, 0, 0};
    const std::weak_ptr<RankProcess> self = weak_from_this();
    reports_.open({.opened = {.process_group = group.id,
                              .name = group.name,
                              .kind = group.name,
                              .generation = 1,
                              .size = size,
                              .rank = rank,
                              .job_rank = rank_},
                   .read = [this, id = group.id] { return read(id); },
                   .hopeless =
                       [this](const ActivityDiagnosis& found) {
                         given_up_ = found.sentence;
                         given_up_at_ = world_.now();
                       }});
  }
  report();
  for (std::size_t thread = 0; thread < threads; ++thread) next_call(thread);
}

/// Reads how far a group has come. Its age is counted in the time of the world.
client::ReadGroup RankProcess::read(std::uint64_t id) const {
  const Group& of = groups_.at(id);
  client::ReadGroup group = of.hook->read();
  const Thread& thread = threads_[of.thread];
  for (UnfinishedOperation& one : group.activity.oldest) {
    one.age = world_.now() - *thread.issued_at;
  }
  // All threads of the simulator are one. A thread waits while it is in an operation.
  const bool used = of.collectives + of.messages > 0;
  group.blocked_in = used && thread.issued_at ? std::optional(thread.calls) : std::nullopt;
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

void RankProcess::next_call(std::size_t thread) {
  PlannedCall planned = program_(*this, thread);
  if (planned.group == nullptr) return;
  const Duration compute = planned.compute;
  const auto self = shared_from_this();
  world_.after(compute, [self, thread, planned = std::move(planned)]() mutable {
    self->when_working(
        [self, thread, planned = std::move(planned)] { self->issue(thread, planned); });
  });
}

void RankProcess::issue(std::size_t thread, PlannedCall planned) {
  Group& group = groups_.at(planned.group->id);
  CollectiveCall& call = threads_[thread].call;
  group.thread = thread;
  ++threads_[thread].calls;
  const bool message = info_of(planned.operation.collective).message;
  call = {};
  call.operation = std::move(planned.operation);
  call.operation.timeout = std::chrono::minutes(10);
  call.operation.sequence = message ? group.messages++ : group.collectives++;
  call.enqueued = clock();
  threads_[thread].issued_at = world_.now();
  ++calls_;
  group.hook->enqueued(call);
  if (planned.queued) return;  // and nothing ends
  call.started = call.begun = clock();
  group.hook->started(call);
  group.hook->begun(call);
  std::string key = format("{} {}", group.of->id, call.operation.sequence);
  std::size_t parties = group.of->ranks.size();
  std::string print = print_of(call.operation);
  if (message) {
    const Rank own = group.of->rank_of(rank_);
    const Rank peer = call.operation.peer;
    const bool sends = call.operation.collective == Collective::send;
    key = format("{} from {} to {}", group.of->id, sends ? own : peer, sends ? peer : own);
    parties = 2;
    print.clear();
  }
  const auto done = [self = shared_from_this(), thread, &group] {
    self->when_working([self, thread, &group] { self->ended(thread, group); });
  };
  if (planned.ends_alone) return world_.after(milliseconds(1), done);
  fabric_.arrive(key, print, parties, shared_from_this(), done);
}

void RankProcess::ended(std::size_t thread, Group& group) {
  threads_[thread].call.finished = clock();
  group.hook->finished(threads_[thread].call);
  threads_[thread].issued_at.reset();
  next_call(thread);
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
  auto report =
      reports_.next(connects != reported_in_, in_operation_since().has_value(), world_.now());
  reported_in_ = connects;
  if (!report) return;
  client_->ask(std::move(*report));
  asked_ = records_.ops.size() - 1;
}

}  // namespace c10dd::sim
