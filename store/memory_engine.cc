// SPDX-License-Identifier: Apache-2.0
// Keeps rows in maps: the simplest engine that fulfils the contract of engine.h. A "durable" change
// lasts until the engine is destroyed.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "store/engines.h"
#include "store/memory_engine.h"

namespace c10dd::store {
namespace {

using JobRows = SharedMemory::JobRows;

class MemoryReader final : public RowReader {
 public:
  /// `rows` is null for an unknown job.
  explicit MemoryReader(const RowMap* rows) : rows_(rows) {}

  Result<bool> next(std::vector<Row>& rows, std::size_t most) override {
    if (rows_ == nullptr) return false;
    auto at = begun_ ? rows_->upper_bound(last_) : rows_->begin();
    std::size_t bytes = 0;
    for (std::size_t n = 0; n < most && bytes < kPieceBytes && at != rows_->end(); ++n, ++at) {
      rows.push_back({Row::Kind::put, at->first, at->second});
      bytes += at->first.size() + at->second.size();
      last_ = at->first;
      begun_ = true;
    }
    return at != rows_->end();
  }
  std::optional<std::uint64_t> rows() const override {
    return rows_ == nullptr ? 0 : rows_->size();
  }

 private:
  const RowMap* rows_;
  Bytes last_;  // last key that was read; an iterator could become invalid between two pieces
  bool begun_ = false;
};

class MemoryEngine final : public Engine {
 public:
  MemoryEngine(std::shared_ptr<SharedMemory> memory, std::uint64_t process, bool shared)
      : memory_(std::move(memory)), process_(process), shared_(shared) {}

  std::string_view name() const override { return "memory"; }
  std::string_view durability() const override { return "none"; }
  bool shared() const override { return shared_; }

  Result<std::vector<JobNumber>> jobs() override {
    std::vector<JobNumber> numbers;
    for (const auto& [number, job] : memory_->jobs) numbers.push_back(number);
    return numbers;
  }

  using Engine::claim;
  Result<ClaimReply> claim(JobNumber job, const ClaimTerms& terms) override {
    if (without_owner(job)) return ClaimReply(Claim{0, memory_->jobs[0].head.revision});
    if (!has(terms.state)) return precondition_failed(job);
    if (!has(terms.entry)) return ClaimReply(Gone{});
    if (const auto held = holder_of(job); held && held != terms.over) return ClaimReply(*held);
    JobRows& of = memory_->jobs[job];
    JobHead& head = of.head;
    ++head.epoch;
    head.repeat_from = head.revision;  // the new owner has no earlier commit to repeat
    of.process = process_;
    of.starts.push_back({head.epoch, head.revision});
    if (of.starts.size() > kEpochStarts) of.starts.erase(of.starts.begin());
    return ClaimReply(Claim{head.epoch, head.revision, of.starts});
  }

  Result<void> renew(const Ownership& owner) override {
    if (check(owner) == Outcome::durable) return {};
    return not_owner(owner);
  }

  Result<void> release(const Ownership& owner) override {
    Result<void> owned = renew(owner);
    if (!owned) return owned;
    JobRows& of = memory_->jobs[owner.job];
    ++of.head.epoch;
    of.process = 0;
    return {};
  }

  Result<void> hand_over(const Ownership& owner, std::uint64_t process) override {
    if (!shared_) return Engine::hand_over(owner, process);
    Result<void> owned = renew(owner);
    if (owned) memory_->jobs[owner.job].process = process;
    return owned;
  }

  Result<void> forget(JobNumber job, const Precondition& mark) override {
    if (!shared_) return Engine::forget(job, mark);
    if (has(mark)) memory_->jobs.erase(job);
    return {};
  }

  std::unique_ptr<RowReader> read(JobNumber job) override {
    const auto found = memory_->jobs.find(job);
    return std::make_unique<MemoryReader>(found == memory_->jobs.end() ? nullptr
                                                                       : &found->second.rows);
  }

  Result<std::optional<Changes>> changes(JobNumber job, Revision from) override {
    if (!without_owner(job)) return Engine::changes(job, from);
    const JobRows& of = memory_->jobs[job];
    Changes changes{of.head.revision, {}, of.rows.size()};
    Revision reached = from;
    for (const JobBatch& change : of.newest) {
      if (change.from_rev != reached) continue;
      changes.rows.append(change.rows);
      reached = change.to_rev;
    }
    if (reached != changes.revision) return std::optional<Changes>();
    return std::optional(std::move(changes));
  }

  std::vector<Outcome> commit(std::span<const JobBatch> batches) override {
    std::map<JobNumber, HeadCheck> checks;
    std::vector<Outcome> outcomes;
    for (const JobBatch& batch : batches) {
      const auto found = memory_->jobs.find(batch.job);
      BatchCheck check = BatchCheck::absent;
      if (found != memory_->jobs.end()) {
        HeadCheck& head = checks.try_emplace(batch.job, found->second.head).first->second;
        check = may_change(batch, found->second) ? head.step(batch) : BatchCheck::fenced;
      }
      if (check == BatchCheck::apply) {
        for (const RowView& row : batch.rows) apply(row, found->second.rows);
        if (without_owner(batch.job)) keep_change(batch, found->second);
      }
      outcomes.push_back(outcome_of(check));
    }
    return outcomes;
  }

  std::vector<Outcome> confirm(std::span<const Ownership> owners) override {
    std::vector<Outcome> outcomes;
    for (const Ownership& owner : owners) {
      outcomes.push_back(check(owner));
    }
    return outcomes;
  }

  std::string_view server() const override { return memory_->server; }

 private:
  bool without_owner(JobNumber job) const { return shared_ && job == 0; }

  /// Returns whether the directory has a row. No key: there is nothing to check.
  bool has(const Precondition& row) const {
    if (row.key.empty()) return true;
    const auto directory = memory_->jobs.find(0);
    if (directory == memory_->jobs.end()) return false;
    const auto found = directory->second.rows.find(row.key);
    return found != directory->second.rows.end() && found->second == row.value;
  }

  /// Returns the owner of a job if it is another daemon of the fleet.
  std::optional<Holder> holder_of(JobNumber job) const {
    const auto found = memory_->jobs.find(job);
    if (!shared_ || found == memory_->jobs.end() || found->second.process == process_) return {};
    const auto daemon = memory_->daemons.find(found->second.process);
    if (daemon == memory_->daemons.end()) return {};  // released, or left
    return Holder{{found->second.head.epoch, found->second.process}, daemon->second.beats};
  }

  static void keep_change(const JobBatch& batch, JobRows& of) {
    of.newest.push_back(batch);
    if (of.newest.size() > kChangesKept) of.newest.pop_front();
  }

  bool may_change(const JobBatch& batch, const JobRows& of) const {
    if (!without_owner(batch.job)) return of.process == process_;
    return batch.from_rev == of.head.revision &&
           std::ranges::all_of(batch.guards, [this](const Ownership& guard) {
             return check(guard) == Outcome::durable;
           });
  }

  Outcome check(const Ownership& owner) const {
    const auto found = memory_->jobs.find(owner.job);
    if (found == memory_->jobs.end()) return Outcome::absent;
    const bool owns = found->second.head.epoch == owner.epoch && found->second.process == process_;
    return owns || without_owner(owner.job) ? Outcome::durable : Outcome::fenced;
  }

  const std::shared_ptr<SharedMemory> memory_;
  const std::uint64_t process_;
  const bool shared_;
};

class MemoryFleet final : public Fleet {
 public:
  explicit MemoryFleet(std::shared_ptr<SharedMemory> memory) : memory_(std::move(memory)) {}

  Result<FleetReading> read() override {
    FleetReading reading;
    for (const auto& [process, row] : memory_->daemons) reading.daemons.push_back(row);
    const JobRows& directory = memory_->jobs[0];
    const auto incarnation = directory.rows.find("i");
    if (incarnation != directory.rows.end()) reading.incarnation = incarnation->second;
    reading.directory = directory.head.revision;
    reading.heartbeat_count = memory_->heartbeat_count;
    reading.rolled_back = memory_->rolled_back;
    reading.accepted = memory_->accepted;
    return reading;
  }

  Result<FleetReading> beat(const DaemonFacts& self) override {
    DaemonRow& row = memory_->daemons[self.process];
    row.facts = self;
    ++row.beats;
    ++memory_->heartbeat_count;
    return read();
  }

  Result<void> remove(std::uint64_t process, std::uint64_t beats) override {
    const auto found = memory_->daemons.find(process);
    const bool same = found != memory_->daemons.end() && found->second.beats == beats;
    if (same) memory_->daemons.erase(found);
    return {};
  }

  Result<void> report_rollback(std::string_view what) override {
    if (memory_->rolled_back.empty()) memory_->rolled_back = what;
    return {};
  }

  Result<void> accept_rollback(const Bytes& incarnation) override {
    memory_->rolled_back.clear();
    memory_->accepted = incarnation;
    return {};
  }

  Result<std::vector<std::optional<Owner>>> owners(std::span<const JobNumber> jobs) override {
    std::vector<std::optional<Owner>> all;
    for (const JobNumber job : jobs) {
      const auto found = memory_->jobs.find(job);
      const bool owned = found != memory_->jobs.end() && found->second.process != 0;
      all.push_back(owned ? std::optional(Owner{found->second.head.epoch, found->second.process})
                          : std::nullopt);
    }
    return all;
  }

  std::string_view server() const override { return memory_->server; }

 private:
  const std::shared_ptr<SharedMemory> memory_;
};

}  // namespace

std::unique_ptr<Engine> open_on(std::shared_ptr<SharedMemory> memory, std::uint64_t process) {
  return std::make_unique<MemoryEngine>(std::move(memory), process, true);
}

std::unique_ptr<Fleet> open_fleet_on(std::shared_ptr<SharedMemory> memory) {
  return std::make_unique<MemoryFleet>(std::move(memory));
}

Result<std::unique_ptr<Engine>> open_memory_engine(std::string_view rest, const OpenOptions&) {
  if (!rest.empty()) {
    return failure(Code::invalid_argument, "engine: \"memory:\" takes no argument, got \"{}\"",
                   rest);
  }
  return std::unique_ptr<Engine>(
      std::make_unique<MemoryEngine>(std::make_shared<SharedMemory>(), 1, false));
}

}  // namespace c10dd::store
