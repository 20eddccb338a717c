// SPDX-License-Identifier: Apache-2.0
// Group commit over engines that lose what they had, run out of memory, or are slow: what the
// callers are told, how much one commit takes, two groups at once, and that no callback is kept.
#include <gtest/gtest.h>

#include <future>
#include <new>

#include "store/group_commit.h"
#include "tests/unit/comes_true.h"
#include "tests/unit/daemon/faulty_engine.h"

namespace c10dd::store {
namespace {

/// A group over a memory engine with faults, and what its callers were told.
class FaultyGroup {
 public:
  FaultyGroup() {
    faults_->before_commit = [this] {
      ++commits;
      if (gate.valid()) gate.wait();
      if (no_memory) throw std::bad_alloc();
    };
    group_ = std::make_unique<GroupCommit>(std::make_unique<daemon::FaultyEngine>(faults_));
    run([this](Engine& engine) { epoch = engine.claim(1)->epoch; });
  }

  void run(const std::function<void(Engine&)>& f) {
    std::promise<void> done;
    group_->post([&](Engine& engine) {
      f(engine);
      done.set_value();
    });
    done.get_future().wait();
  }
  JobBatch change(Revision from, std::size_t rows = 1) const {
    JobBatch batch{1, epoch, from, from + 1, {}};
    for (std::size_t n = 0; n < rows; ++n) batch.rows.push_back({Row::Kind::put, "k", "v"});
    return batch;
  }
  void submit(std::vector<JobBatch> jobs, std::vector<Ownership> confirms = {}) {
    group_->submit({submitted_++, std::move(jobs), std::move(confirms)},
                   [this, held = alive](CommitResult result) {
                     results.push_back(std::move(result));
                     commits_seen.push_back(commits);
                   });
  }
  /// Waits for the results of all that was submitted.
  void settle() {
    run([](Engine&) {});
  }

  std::atomic<bool> no_memory = false;
  std::shared_future<void> gate;  // a commit waits for it, if set before the commit
  std::atomic<int> commits = 0;   // calls of the engine
  std::vector<int> commits_seen;  // at each result
  std::vector<CommitResult> results;
  Epoch epoch = 0;
  std::shared_ptr<int> alive = std::make_shared<int>();  // each callback holds it

 private:
  std::uint64_t submitted_ = 0;
  std::shared_ptr<daemon::EngineFaults> faults_ = std::make_shared<daemon::EngineFaults>();
  std::unique_ptr<GroupCommit> group_;
};

TEST(GroupCommitFaults, AnOwnerIsConfirmedByItsNewestBatch) {
  FaultyGroup group;
  group.submit({group.change(0), group.change(5)},
               {{1, group.epoch}, {1, group.epoch + 1}, {1, group.epoch}});
  group.settle();
  ASSERT_EQ(group.results.size(), 1U);
  EXPECT_EQ(group.results[0].jobs, (std::vector{Outcome::durable, Outcome::lost}));
  EXPECT_EQ(group.results[0].confirms,
            (std::vector{Outcome::lost, Outcome::fenced, Outcome::lost}));
  EXPECT_EQ(group.alive.use_count(), 1) << "a callback is kept";
}

TEST(GroupCommitFaults, AnEngineThatHasLostAJobIsAskedNoMore) {
  for (const bool absent : {false, true}) {
    FaultyGroup group;
    JobBatch gone = group.change(7);
    if (absent) gone.job = 9;
    group.submit({gone});
    group.settle();
    EXPECT_EQ(group.results[0].jobs.at(0), absent ? Outcome::absent : Outcome::lost);
    group.submit({group.change(0)}, {{1, group.epoch}});
    group.settle();
    EXPECT_EQ(group.results[1].jobs.at(0), Outcome::unknown);
    EXPECT_EQ(group.results[1].confirms.at(0), Outcome::unknown);
    EXPECT_EQ(group.commits, 1);
  }
}

TEST(GroupCommitFaults, AFencedBatchEndsNothing) {
  FaultyGroup group;
  JobBatch old = group.change(0);
  --old.epoch;
  group.submit({old});
  group.submit({group.change(0)});
  group.settle();
  EXPECT_EQ(group.results[0].jobs.at(0), Outcome::fenced);
  EXPECT_EQ(group.results[1].jobs.at(0), Outcome::durable);
}

TEST(GroupCommitFaults, OutOfMemoryIsToldAndEndsTheEngine) {
  FaultyGroup group;
  group.no_memory = true;
  group.submit({group.change(0), group.change(1)}, {{1, group.epoch}, {2, 1}});
  group.settle();
  group.no_memory = false;
  group.submit({group.change(0)});
  group.settle();
  EXPECT_EQ(group.results[0].jobs, (std::vector{Outcome::unknown, Outcome::unknown}));
  EXPECT_EQ(group.results[0].confirms, (std::vector{Outcome::unknown, Outcome::unknown}));
  EXPECT_EQ(group.results[0].why, "out of memory");
  EXPECT_EQ(group.results[1].jobs.at(0), Outcome::unknown);
  EXPECT_EQ(group.commits, 1);
  EXPECT_EQ(group.alive.use_count(), 1);
}

TEST(GroupCommitFaults, ACommitTakesBatchesUntilItHasMoreThan65536Rows) {
  FaultyGroup group;
  std::promise<void> open;
  group.gate = open.get_future().share();
  group.submit({group.change(0)});
  ASSERT_TRUE(test::comes_true([&] { return group.commits == 1; }));
  // What is submitted while the first commit waits is gathered.
  group.submit({group.change(1, 65'536)});
  group.submit({group.change(2)});
  group.submit({group.change(3)});
  open.set_value();
  group.settle();
  ASSERT_EQ(group.results.size(), 4U);
  for (const CommitResult& result : group.results) {
    EXPECT_EQ(result.jobs.at(0), Outcome::durable);
  }
  const std::vector<int>& seen = group.commits_seen;
  EXPECT_EQ(seen[2], seen[1]) << "as many rows as a commit may have";
  EXPECT_EQ(seen[3], seen[2] + 1) << "one more";
}

TEST(GroupCommitFaults, TwoGroupsHaveTheirOwnEngines) {
  FaultyGroup one;
  FaultyGroup two;
  one.submit({one.change(3)});
  two.submit({two.change(0)});
  one.settle();
  two.settle();
  one.submit({one.change(0)});
  two.submit({two.change(1)});
  one.settle();
  two.settle();
  EXPECT_EQ(one.results[0].jobs.at(0), Outcome::lost);
  EXPECT_EQ(one.results[1].jobs.at(0), Outcome::unknown);
  EXPECT_EQ(two.results[0].jobs.at(0), Outcome::durable);
  EXPECT_EQ(two.results[1].jobs.at(0), Outcome::durable);
}

}  // namespace
}  // namespace c10dd::store
