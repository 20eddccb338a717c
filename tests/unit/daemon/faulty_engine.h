// SPDX-License-Identifier: Apache-2.0
// A memory engine that fails when a test says so.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "store/engine.h"

namespace c10dd::daemon {

/// The switches of a FaultyEngine. Thread-safe, because the engine runs on the commit thread.
struct EngineFaults {
  std::atomic<bool> unknown = false;   ///< commits have an unknown outcome, and do nothing
  std::atomic<bool> had_room = true;   ///< what relieve() returns
  std::atomic<unsigned> relieved = 0;  ///< number of calls of relieve()
  /// Called on the commit thread before each commit; set before the first one.
  std::function<void()> before_commit;
  /// Called on the commit thread before a job is read; set before the first one.
  std::function<void()> before_read;
  /// What hand_over() does; null: what a memory engine does.
  std::function<Result<void>(const store::Ownership& owner, std::uint64_t process)> hand_over;
};

class FaultyEngine final : public store::Engine {
 public:
  explicit FaultyEngine(std::shared_ptr<EngineFaults> faults, std::string damage = {})
      : faults_(std::move(faults)), damage_(std::move(damage)) {}

  /// Not "memory", because nothing is committed to an engine of that name.
  std::string_view name() const override { return "faulty"; }
  std::string_view durability() const override { return memory_->durability(); }
  bool shared() const override { return memory_->shared(); }
  Result<std::vector<JobNumber>> jobs() override { return memory_->jobs(); }
  using Engine::claim;
  Result<store::ClaimReply> claim(JobNumber job, const store::ClaimTerms& terms) override {
    return memory_->claim(job, terms);
  }
  Result<void> renew(const store::Ownership& owner) override { return memory_->renew(owner); }
  Result<void> release(const store::Ownership& owner) override { return memory_->release(owner); }
  std::unique_ptr<store::RowReader> read(JobNumber job) override {
    if (faults_->before_read) faults_->before_read();
    return memory_->read(job);
  }
  std::vector<store::Outcome> commit(std::span<const store::JobBatch> batches) override {
    if (faults_->before_commit) faults_->before_commit();
    if (faults_->unknown) return {batches.size(), store::Outcome::unknown};
    return memory_->commit(batches);
  }
  std::vector<store::Outcome> confirm(std::span<const store::Ownership> owners) override {
    return memory_->confirm(owners);
  }
  Result<void> hand_over(const store::Ownership& owner, std::uint64_t process) override {
    return faults_->hand_over ? faults_->hand_over(owner, process)
                              : memory_->hand_over(owner, process);
  }
  bool relieve() override {
    ++faults_->relieved;
    return faults_->had_room;
  }
  std::uint64_t room_to_tidy() const override { return 4711; }
  std::string_view damage() const override { return damage_; }

 private:
  std::shared_ptr<EngineFaults> faults_;
  std::string damage_;
  std::unique_ptr<store::Engine> memory_ = *store::open_engine("memory:");
};

}  // namespace c10dd::daemon
