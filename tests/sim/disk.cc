// SPDX-License-Identifier: Apache-2.0
// One item at a time: its effect happens between two random delays, unless the process dies.
#include "tests/sim/disk.h"

#include "tests/sim/plants.h"

namespace c10dd::sim {
namespace {

using store::JobBatch;
using store::Outcome;

constexpr Duration kLeast = std::chrono::microseconds(100);

}  // namespace

Disk::Disk(World& world, const Swarm& swarm, Records& records)
    : world_(world), swarm_(swarm), records_(records) {
  if (swarm.fleet()) {
    engine_ = store::open_on(memory_, 0);
  } else {
    engine_ = *store::open_engine("memory:");
  }
}

std::shared_ptr<store::Engine> Disk::engine_of(std::uint64_t process) {
  if (!swarm_.fleet()) return engine_;
  return store::open_on(memory_, process);
}

void Disk::put_back(const store::SharedMemory& copy, bool jobs_only) {
  replaced_.push_back(std::exchange(memory_->jobs, copy.jobs));
  if (jobs_only) {
    memory_->jobs[0] = replaced_.back()[0];
    return;
  }
  memory_->daemons = copy.daemons;
  memory_->heartbeat_count = copy.heartbeat_count;
  memory_->rolled_back = copy.rolled_back;
  memory_->accepted = copy.accepted;
}

void Disk::promote(const store::SharedMemory& copy) {
  memory_ = std::make_shared<store::SharedMemory>(copy);
  memory_->server = "promoted";
}

void Disk::roll_back() {
  auto older = *store::open_engine("memory:");
  const auto commit = [&](JobNumber job, Revision to, const std::vector<Row>& rows) {
    const JobBatch batch{job, older->claim(job)->epoch, 0, to, Rows(rows), {}};
    if (to > 0) C10DD_ASSERT(older->commit(std::span(&batch, 1)).front() == Outcome::durable);
  };
  std::vector<Row> directory;
  static_cast<void>(engine_->load(0, [&](Row row) { directory.push_back(std::move(row)); }));
  commit(0, engine_->claim(0)->revision, directory);
  for (const auto& [name, job] : records_.jobs) {
    const std::vector<Step>& log = records_.log(job);
    const std::size_t kept = world_.random.below(log.size() + 1);
    std::vector<Row> rows;
    for (std::size_t i = 0; i < kept; ++i) {
      rows.insert(rows.end(), log[i].rows.begin(), log[i].rows.end());
    }
    records_.rolled_back_to[name] = kept == 0 ? 0 : log[kept - 1].revision;
    commit(job, records_.rolled_back_to[name], rows);
  }
  engine_ = std::move(older);
}

/// Plants an engine that commits the batch of a deposed owner.
bool Disk::force(const JobBatch& batch) {
  store::Ownership owner{batch.job, batch.epoch};
  while (engine_->confirm(std::span(&owner, 1)).front() != Outcome::durable) ++owner.epoch;
  const std::vector<Step>& log = records_.log(batch.job);
  JobBatch forced = batch;
  forced.epoch = owner.epoch;
  forced.from_rev = log.empty() ? 0 : log.back().revision;
  forced.to_rev = std::max(batch.to_rev, forced.from_rev + 1);
  return engine_->commit(std::span(&forced, 1)).front() == Outcome::durable;
}

std::vector<Outcome> Disk::apply(store::Engine& engine, std::span<const JobBatch> batches,
                                 std::size_t count) {
  std::vector<Outcome> outcomes(batches.size(), Outcome::unknown);
  if (count == 0) return outcomes;
  const std::vector<Outcome> applied = engine.commit(batches.first(count));
  for (std::size_t i = 0; i < count; ++i) {
    outcomes[i] = applied[i];
    const bool forced = planted(Plant::fences_ignored) && !swarm_.fleet();
    if (applied[i] == Outcome::fenced && forced && force(batches[i])) {
      outcomes[i] = Outcome::durable;
    }
    world_.note("disk.batch", batches[i].job, batches[i].to_rev,
                outcomes[i] == Outcome::durable ? "durable" : "fenced");
    if (applied[i] == Outcome::durable) records_.taken(batches[i], world_.next_order());
  }
  return outcomes;
}

void DiskQueue::submit(store::CommitBatch batch, OnDone on_done) {
  items_.push_back(
      std::make_shared<Item>(Item{std::move(batch), std::move(on_done), {}, world_.now()}));
  start();
}

void DiskQueue::post(Function f) {
  items_.push_back(std::make_shared<Item>(Item{{}, {}, std::move(f), world_.now()}));
  start();
}

void DiskQueue::start() {
  if (busy_ || dead_ || items_.empty()) return;
  busy_ = true;
  executed_ = false;
  Duration before = world_.random.skewed(kLeast, disk_.swarm_.disk_most);
  const Duration after = world_.random.skewed(kLeast, disk_.swarm_.disk_most);
  if (std::exchange(disk_.stall_next_, false)) {
    before += world_.random.between(std::chrono::milliseconds(200), std::chrono::seconds(8));
  }
  before += disk_.hangs_for();
  world_.after(before, [self = shared_from_this(), item = items_.front(), after] {
    self->execute(item, after);
  });
}

void DiskQueue::execute(const std::shared_ptr<Item>& item, Duration rest) {
  if (dead_) {
    // A command to a shared engine may have been on the wire when its sender died.
    if (disk_.swarm_.shared && !executed_ && !item->function && world_.random.chance(50)) {
      disk_.apply(*engine_, item->batch.jobs, item->batch.jobs.size());
    }
    executed_ = true;
    return;
  }
  executed_ = true;
  if (std::exchange(disk_.fail_next_, false)) {
    world_.note("disk.error");
    lost_ = true;
    disk_.apply(*engine_, item->batch.jobs, world_.random.below(item->batch.jobs.size() + 1));
  }
  if (item->function) {
    item->function(lost_ ? nullptr : engine_.get());
    return end();
  }
  store::CommitResult result{item->batch.number, {}, {}, rest};
  if (lost_) {
    result.jobs.assign(item->batch.jobs.size(), Outcome::unknown);
    result.confirms.assign(item->batch.confirms.size(), Outcome::unknown);
  } else {
    result.jobs = disk_.apply(*engine_, item->batch.jobs, item->batch.jobs.size());
    result.confirms = engine_->confirm(item->batch.confirms);
  }
  world_.after(rest, [self = shared_from_this(), item, result = std::move(result)]() mutable {
    if (self->dead_) return;
    item->on_done(std::move(result));
    self->end();
  });
}

Duration DiskQueue::age() const {
  return items_.empty() ? Duration(0) : world_.now() - items_.front()->submitted;
}

void DiskQueue::end() {
  items_.pop_front();
  busy_ = false;
  start();
}

void DiskQueue::die() {
  if (std::exchange(dead_, true) || executed_ || items_.empty()) return;
  const Item& item = *items_.front();
  if (disk_.swarm_.shared || item.function) return;
  executed_ = true;
  // Bytes in the kernel's cache may reach the disk without a sync: a prefix, in whole batches.
  disk_.apply(*engine_, item.batch.jobs, world_.random.below(item.batch.jobs.size() + 1));
}

}  // namespace c10dd::sim
