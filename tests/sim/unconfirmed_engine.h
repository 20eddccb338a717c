// SPDX-License-Identifier: Apache-2.0
// The planted engine that confirms every claim, even one that no longer holds.
#pragma once

#include "store/engine.h"

namespace c10dd::sim {

class UnconfirmedEngine final : public store::Engine {
 public:
  explicit UnconfirmedEngine(store::Engine& real) : real_(real) {}

  Result<void> renew(const store::Ownership&) override { return {}; }

  std::string_view name() const override { return real_.name(); }
  std::string_view durability() const override { return real_.durability(); }
  bool shared() const override { return real_.shared(); }
  Result<std::vector<JobNumber>> jobs() override { return real_.jobs(); }
  using Engine::claim;
  Result<store::ClaimReply> claim(JobNumber job, const store::ClaimTerms& terms) override {
    return real_.claim(job, terms);
  }
  Result<void> release(const store::Ownership& owner) override { return real_.release(owner); }
  std::unique_ptr<store::RowReader> read(JobNumber job) override { return real_.read(job); }
  std::vector<store::Outcome> commit(std::span<const store::JobBatch> batches) override {
    return real_.commit(batches);
  }
  std::vector<store::Outcome> confirm(std::span<const store::Ownership> owners) override {
    return real_.confirm(owners);
  }

 private:
  store::Engine& real_;
};

}  // namespace c10dd::sim
