// SPDX-License-Identifier: Apache-2.0
// Keeps rows in maps: the simplest engine that fulfils the contract of engine.h. A "durable" change
// lasts until the engine is destroyed.
#include <map>
#include <string>
#include <vector>

#include "store/engines.h"
#include "store/job_head.h"

namespace c10dd::store {
namespace {

using RowMap = std::map<Bytes, Bytes, std::less<>>;

struct JobRows {
  JobHead head;
  std::vector<EpochStart> starts;
  RowMap rows;
};

void apply(const RowView& row, RowMap& rows) {
  switch (row.kind) {
    case Row::Kind::put:
      rows.insert_or_assign(Bytes(row.key), Bytes(row.value));
      return;
    case Row::Kind::erase:
      if (const auto it = rows.find(row.key); it != rows.end()) rows.erase(it);
      return;
    case Row::Kind::erase_prefix:
      for (auto it = rows.lower_bound(row.key); it != rows.end() && it->first.starts_with(row.key);)
        it = rows.erase(it);
      return;
  }
}

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

 private:
  const RowMap* rows_;
  Bytes last_;  // last key that was read; an iterator could become invalid between two pieces
  bool begun_ = false;
};

class MemoryEngine final : public Engine {
 public:
  std::string_view name() const override { return "memory"; }
  std::string_view durability() const override { return "none"; }
  bool shared() const override { return false; }

  Result<std::vector<JobNumber>> jobs() override {
    std::vector<JobNumber> numbers;
    for (const auto& [number, job] : jobs_) numbers.push_back(number);
    return numbers;
  }

  using Engine::claim;
  Result<Claim> claim(JobNumber job, const Witness* witness) override {
    if (witness != nullptr) {
      const RowMap& directory = jobs_[0].rows;
      const auto row = directory.find(witness->key);
      if (row == directory.end() || row->second != witness->value) return no_witness(job);
    }
    JobRows& of = jobs_[job];
    JobHead& head = of.head;
    ++head.epoch;
    head.repeat_from = head.revision;  // the new owner has no earlier commit to repeat
    of.starts.push_back({head.epoch, head.revision});
    if (of.starts.size() > kEpochStarts) of.starts.erase(of.starts.begin());
    return Claim{head.epoch, head.revision, of.starts};
  }

  Result<void> renew(const Ownership& owner) override {
    if (check(owner) == Outcome::durable) return {};
    return not_owner(owner);
  }

  Result<void> release(const Ownership& owner) override {
    Result<void> owned = renew(owner);
    if (owned) ++jobs_[owner.job].head.epoch;
    return owned;
  }

  std::unique_ptr<RowReader> read(JobNumber job) override {
    const auto found = jobs_.find(job);
    return std::make_unique<MemoryReader>(found == jobs_.end() ? nullptr : &found->second.rows);
  }

  std::vector<Outcome> commit(std::span<const JobBatch> batches) override {
    std::map<JobNumber, HeadCheck> checks;
    std::vector<Outcome> outcomes;
    for (const JobBatch& batch : batches) {
      const auto found = jobs_.find(batch.job);
      BatchCheck check = BatchCheck::lost;  // of an unknown job
      if (found != jobs_.end()) {
        check = checks.try_emplace(batch.job, found->second.head).first->second.step(batch);
      }
      if (check == BatchCheck::apply) {
        for (const RowView& row : batch.rows) apply(row, found->second.rows);
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

 private:
  Outcome check(const Ownership& owner) const {
    const auto found = jobs_.find(owner.job);
    if (found == jobs_.end()) return Outcome::lost;
    return found->second.head.epoch == owner.epoch ? Outcome::durable : Outcome::fenced;
  }

  std::map<JobNumber, JobRows> jobs_;
};

}  // namespace

Result<std::unique_ptr<Engine>> open_memory_engine(std::string_view rest, const OpenOptions&) {
  if (!rest.empty()) {
    return failure(Code::invalid_argument, "engine: \"memory:\" takes no argument, got \"{}\"",
                   rest);
  }
  return std::unique_ptr<Engine>(std::make_unique<MemoryEngine>());
}

}  // namespace c10dd::store
