// SPDX-License-Identifier: Apache-2.0
// Every engine against a model of a few lines: the same seeded batches, claims, repeats, gaps and
// restarts must give the same outcomes and the same rows.
#include <random>
#include <tuple>

#include "tests/unit/store/engine_home.h"

namespace c10dd::store {
namespace {

/// The contract of the engines, implemented in another way than in the engines.
struct Model {
  Epoch epoch = 0;
  Revision revision = 0;
  std::vector<JobBatch> newest;  ///< accepted batches of the newest commit that changed something
  std::map<Bytes, Bytes> rows;
  std::vector<JobBatch> accepted;  ///< of the commit under way
  bool changed = false;

  void begin() {
    accepted.clear();
    changed = false;
  }

  Outcome commit(const JobBatch& batch) {
    if (epoch == 0) return Outcome::absent;  // never claimed
    if (batch.epoch != epoch) return Outcome::fenced;
    if (batch.from_rev > revision) return Outcome::lost;
    const bool next = batch.from_rev == revision;
    if (!next && !known(newest, batch) && !known(accepted, batch)) return Outcome::fenced;
    accepted.push_back(batch);
    if (!next || batch.to_rev == revision) return Outcome::durable;
    for (const RowView& row : batch.rows) {
      if (row.kind == Row::Kind::put) rows[Bytes(row.key)] = row.value;
      if (row.kind == Row::Kind::erase) rows.erase(Bytes(row.key));
      if (row.kind == Row::Kind::erase_prefix) {
        std::erase_if(rows, [&](const auto& old) { return old.first.starts_with(row.key); });
      }
    }
    revision = batch.to_rev;
    changed = true;
    return Outcome::durable;
  }

  void end() {
    if (changed) newest = accepted;
  }

  static bool known(const std::vector<JobBatch>& batches, const JobBatch& batch) {
    for (const JobBatch& old : batches) {
      if (std::tie(old.from_rev, old.to_rev) == std::tie(batch.from_rev, batch.to_rev)) return true;
    }
    return false;
  }
};

class EngineModel : public EngineTest {
 protected:
  static constexpr JobNumber kJobs = 3;

  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }

  Bytes some_key() {
    static const Bytes kAlphabet(
        "\0\xff"
        "ab*",
        5);
    Bytes key;
    for (std::uint64_t n = below(4); n > 0; --n) key += kAlphabet[below(kAlphabet.size())];
    return key;
  }

  JobBatch next_batch(JobNumber job, Revision from) {
    JobBatch batch{job, models_[job].epoch, from, from + below(3), {}};
    if (batch.to_rev == from) return batch;
    for (std::uint64_t n = below(12); n > 0; --n) {
      Row row{Row::Kind::put, some_key(), {}};
      const std::uint64_t kind = below(10);
      if (kind == 0) row.kind = Row::Kind::erase_prefix;
      if (kind == 1 || kind == 2) row.kind = Row::Kind::erase;
      if (row.kind == Row::Kind::put) row.value = Bytes(below(40), static_cast<char>(below(256)));
      batch.rows.push_back(std::move(row));
    }
    return batch;
  }

  /// Mostly the next batches of some jobs; sometimes a repeat, a gap, or an old epoch between.
  std::vector<JobBatch> some_commit() {
    std::vector<JobBatch> batches;
    std::map<JobNumber, Revision> heads;
    for (std::uint64_t n = below(5); n > 0; --n) {
      const JobNumber job = 1 + below(kJobs);  // job 0 has no owner on a shared engine
      const Model& model = models_[job];
      Revision& head = heads.try_emplace(job, model.revision).first->second;
      JobBatch batch = next_batch(job, head);
      const std::uint64_t fault = below(12);
      if (fault == 0 && model.epoch > 0) {
        --batch.epoch;
      } else if (fault == 1) {
        batch = next_batch(job, head + 1 + below(3));
      } else if (fault <= 3 && !model.newest.empty() && head == model.revision) {
        batch = model.newest[below(model.newest.size())];
      } else {
        head = batch.to_rev;
      }
      batches.push_back(std::move(batch));
    }
    return batches;
  }

  void commit_some() {
    const std::vector<JobBatch> batches = some_commit();
    std::vector<Outcome> expected;
    for (auto& [job, model] : models_) model.begin();
    for (const JobBatch& batch : batches) expected.push_back(models_[batch.job].commit(batch));
    for (auto& [job, model] : models_) model.end();
    ASSERT_EQ(engine_->commit(batches), expected);
  }

  void claim_some() {
    const JobNumber job = 1 + below(kJobs);  // job 0 has no owner on a shared engine
    const Result<Claim> claim = engine_->claim(job);
    ASSERT_TRUE(claim) << claim.error().detail;
    Model& model = models_[job];
    ASSERT_GT(claim->epoch, model.epoch);
    ASSERT_EQ(claim->revision, model.revision);
    model.epoch = claim->epoch;
    model.newest.clear();
  }

  void compare() {
    for (const auto& [job, model] : models_) ASSERT_EQ(rows_of(*engine_, job), model.rows);
  }

  std::mt19937_64 random_;
  std::map<JobNumber, Model> models_;
};

TEST_P(EngineModel, AgreesWithTheModel) {
  for (const std::uint64_t seed : {1, 2, 3, 4, 5}) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    random_.seed(seed);
    models_.clear();
    std::string reason;
    engine_.reset();
    home_ = make_home(GetParam(), reason);
    engine_ = home_->open();
    for (int step = 0; step < 300 && !HasFatalFailure(); ++step) {
      const std::uint64_t what = below(30);
      if (what == 0) {
        claim_some();
      } else if (what == 1 && GetParam() != "memory") {
        reopen();
      } else if (what <= 4) {
        compare();
      } else {
        commit_some();
      }
    }
    if (HasFatalFailure()) return;
    compare();
  }
}

INSTANTIATE_TEST_SUITE_P(Engines, EngineModel, testing::ValuesIn(built_engines()), engine_name);

}  // namespace
}  // namespace c10dd::store
