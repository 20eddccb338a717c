// SPDX-License-Identifier: Apache-2.0
// Group commit over an engine that a test can hold still: order, gathering, unknown outcomes, end.
#include "store/group_commit.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>

namespace c10dd::store {
namespace {

constexpr std::chrono::seconds kPatience{30};

/// Lets a test observe and control the engine that GroupCommit owns.
struct Script {
  std::mutex mutex;
  std::condition_variable changed;
  bool open = true;                   ///< a commit waits while this is false
  bool copy_open = true;              ///< as open, for a checkpoint
  int waiting = 0;                    ///< commits that wait now
  std::vector<std::size_t> commits;   ///< batches of each commit
  std::vector<std::size_t> confirms;  ///< owners of each confirmation
  Outcome commit_outcome = Outcome::durable;
  Outcome confirm_outcome = Outcome::durable;
  bool closed = false;

  void set_open(bool now) {
    const std::lock_guard lock(mutex);
    open = now;
    changed.notify_all();
  }
  void set_copy_open(bool now) {
    const std::lock_guard lock(mutex);
    copy_open = now;
    changed.notify_all();
  }
  bool wait_until_committing() {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, kPatience, [this] { return waiting == 1; });
  }
};

class ScriptedEngine final : public Engine {
 public:
  explicit ScriptedEngine(Script& script) : script_(script) {}
  ~ScriptedEngine() override { script_.closed = true; }

  std::string_view name() const override { return "scripted"; }
  std::string_view durability() const override { return "none"; }
  bool shared() const override { return true; }
  Result<std::vector<JobNumber>> jobs() override { return std::vector<JobNumber>{}; }
  using Engine::claim;
  Result<ClaimReply> claim(JobNumber job, const ClaimTerms&) override {
    return ClaimReply(Claim{job, 0});
  }
  Result<void> renew(const Ownership&) override { return {}; }
  Result<void> release(const Ownership&) override { return {}; }
  std::unique_ptr<RowReader> read(JobNumber) override { return nullptr; }

  std::vector<Outcome> commit(std::span<const JobBatch> batches) override {
    std::unique_lock lock(script_.mutex);
    script_.commits.push_back(batches.size());
    ++script_.waiting;
    script_.changed.notify_all();
    script_.changed.wait(lock, [this] { return script_.open; });
    --script_.waiting;
    std::vector<Outcome> outcomes(batches.size(), Outcome::durable);
    outcomes.back() = script_.commit_outcome;
    return outcomes;
  }

  /// Jobs with an odd number are fenced.
  std::vector<Outcome> confirm(std::span<const Ownership> owners) override {
    const std::lock_guard lock(script_.mutex);
    script_.confirms.push_back(owners.size());
    std::vector<Outcome> outcomes;
    for (const Ownership& owner : owners) {
      outcomes.push_back(owner.job % 2 == 1 ? Outcome::fenced : script_.confirm_outcome);
    }
    return outcomes;
  }

  Result<void> checkpoint(const std::string&) const override {
    std::unique_lock lock(script_.mutex);
    script_.changed.wait(lock, [this] { return script_.copy_open; });
    return {};
  }

 private:
  Script& script_;
};

/// Runs f(engine) on the commit thread and waits for its end.
void run(GroupCommit& group, const std::function<void(Engine&)>& f) {
  std::promise<void> done;
  group.post([&](Engine& engine) {
    f(engine);
    done.set_value();
  });
  EXPECT_EQ(done.get_future().wait_for(kPatience), std::future_status::ready);
}

CommitBatch batch_of(std::uint64_t number, std::size_t batches,
                     std::vector<Ownership> confirms = {}) {
  return {number, std::vector<JobBatch>(batches, JobBatch{1, 1, 0, 0, {}}), std::move(confirms)};
}

class GroupCommitTest : public testing::Test {
 protected:
  void submit(CommitBatch batch) {
    group_->submit(std::move(batch),
                   [this](CommitResult result) { results_.push_back(std::move(result)); });
  }
  /// Returns the results of all batches submitted until now, after all have been answered.
  const std::vector<CommitResult>& replies() {
    run(*group_, [](Engine&) {});
    return results_;
  }

  Script script_;
  std::vector<CommitResult> results_;
  std::unique_ptr<GroupCommit> group_ =
      std::make_unique<GroupCommit>(std::make_unique<ScriptedEngine>(script_));
};

TEST_F(GroupCommitTest, AnswersEveryBatchInOrder) {
  for (std::uint64_t n = 0; n < 100; ++n) submit(batch_of(n, n % 3));
  ASSERT_EQ(replies().size(), 100u);
  for (std::uint64_t n = 0; n < 100; ++n) {
    EXPECT_EQ(results_[n].number, n);
    EXPECT_EQ(results_[n].jobs, std::vector<Outcome>(n % 3, Outcome::durable));
    EXPECT_TRUE(results_[n].confirms.empty());
  }
}

TEST_F(GroupCommitTest, GathersBehindACommitInFlight) {
  script_.set_open(false);
  submit(batch_of(0, 1));
  ASSERT_TRUE(script_.wait_until_committing());
  for (std::uint64_t n = 1; n <= 10; ++n) submit(batch_of(n, 2));
  script_.set_open(true);
  EXPECT_EQ(replies().size(), 11u);
  EXPECT_EQ(script_.commits, (std::vector<std::size_t>{1, 20}));
}

TEST_F(GroupCommitTest, SaysHowLongTheOldestWaits) {
  EXPECT_EQ(group_->oldest(), Duration{0});
  script_.set_open(false);
  submit(batch_of(0, 1));
  ASSERT_TRUE(script_.wait_until_committing());
  submit(batch_of(1, 1));
  const Duration first = group_->oldest();
  EXPECT_GT(first, Duration{0});
  EXPECT_GT(group_->oldest(), first);
  script_.set_open(true);
  replies();
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (group_->oldest() != Duration{0}) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    std::this_thread::yield();
  }
}

TEST_F(GroupCommitTest, BoundsWhatOneCommitGathers) {
  script_.set_open(false);
  submit(batch_of(0, 1));
  ASSERT_TRUE(script_.wait_until_committing());
  for (std::uint64_t n = 1; n <= 4; ++n) {
    CommitBatch large = batch_of(n, 1);
    large.jobs[0].to_rev = 1;
    large.jobs[0].rows.push_back({Row::Kind::put, "k", Bytes(std::size_t{20} << 20, 'v')});
    submit(std::move(large));
  }
  script_.set_open(true);
  EXPECT_EQ(replies().size(), 5u);
  EXPECT_EQ(script_.commits, (std::vector<std::size_t>{1, 2, 2}));
}

TEST_F(GroupCommitTest, ConfirmsEveryOwnerOnceForAllWhoAsk) {
  script_.set_open(false);
  submit(batch_of(0, 1));
  ASSERT_TRUE(script_.wait_until_committing());
  submit(batch_of(1, 0, {{2, 1}, {3, 1}}));
  submit(batch_of(2, 1));
  submit(batch_of(3, 1, {{3, 1}, {4, 1}, {2, 1}}));
  script_.set_open(true);
  ASSERT_EQ(replies().size(), 4u);
  EXPECT_EQ(script_.confirms, (std::vector<std::size_t>{3}));
  EXPECT_EQ(results_[1].confirms, (std::vector<Outcome>{Outcome::durable, Outcome::fenced}));
  EXPECT_TRUE(results_[2].confirms.empty());
  EXPECT_EQ(results_[3].confirms,
            (std::vector<Outcome>{Outcome::fenced, Outcome::durable, Outcome::durable}));
}

TEST_F(GroupCommitTest, LetsBatchesGoBetweenSteps) {
  std::vector<std::size_t> commits_before_step;
  std::promise<void> done;
  group_->post_steps([&](Engine&) {
    commits_before_step.push_back(script_.commits.size());
    submit(batch_of(commits_before_step.size(), 1));
    if (commits_before_step.size() < 3) return true;
    done.set_value();
    return false;
  });
  ASSERT_EQ(done.get_future().wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(replies().size(), 3u);
  EXPECT_EQ(commits_before_step, (std::vector<std::size_t>{0, 1, 2}));
}

TEST_F(GroupCommitTest, FinishesStepsAndForgetsThemBeforeItClosesTheEngine) {
  int steps = 0;
  bool forgotten = false;
  std::shared_ptr<void> guard(nullptr, [&](void*) { forgotten = !script_.closed; });
  group_->post_steps([&steps, guard = std::move(guard)](Engine&) { return ++steps < 100; });
  group_.reset();
  EXPECT_EQ(steps, 100);
  EXPECT_TRUE(forgotten);
}

TEST_F(GroupCommitTest, LeavesTheEngineAloneAfterAnUnknownCommit) {
  submit(batch_of(0, 1));
  replies();
  script_.commit_outcome = Outcome::unknown;
  submit(batch_of(1, 2, {{2, 1}}));
  replies();
  script_.commit_outcome = Outcome::durable;
  submit(batch_of(2, 1, {{2, 1}}));
  ASSERT_EQ(replies().size(), 3u);
  EXPECT_EQ(results_[0].jobs, std::vector<Outcome>{Outcome::durable});
  EXPECT_EQ(results_[1].jobs, (std::vector<Outcome>{Outcome::durable, Outcome::unknown}));
  EXPECT_EQ(results_[1].confirms, std::vector<Outcome>{Outcome::unknown});
  EXPECT_EQ(results_[2].jobs, std::vector<Outcome>{Outcome::unknown});
  EXPECT_EQ(results_[2].confirms, std::vector<Outcome>{Outcome::unknown});
  EXPECT_EQ(script_.commits, (std::vector<std::size_t>{1, 2}));
  EXPECT_TRUE(script_.confirms.empty());
}

TEST_F(GroupCommitTest, LeavesTheEngineAloneAfterAnUnknownConfirmation) {
  script_.confirm_outcome = Outcome::unknown;
  submit(batch_of(0, 1, {{2, 1}}));
  replies();
  script_.confirm_outcome = Outcome::durable;
  submit(batch_of(1, 1, {{2, 1}}));
  ASSERT_EQ(replies().size(), 2u);
  EXPECT_EQ(results_[0].jobs, std::vector<Outcome>{Outcome::durable});
  EXPECT_EQ(results_[0].confirms, std::vector<Outcome>{Outcome::unknown});
  EXPECT_EQ(results_[1].jobs, std::vector<Outcome>{Outcome::unknown});
  EXPECT_EQ(script_.commits.size(), 1u);
}

TEST_F(GroupCommitTest, FinishesWhatWasSubmittedBeforeItEnds) {
  script_.set_open(false);
  submit(batch_of(0, 1));
  ASSERT_TRUE(script_.wait_until_committing());
  for (std::uint64_t n = 1; n < 5; ++n) submit(batch_of(n, 1));
  auto ended = std::async(std::launch::async, [this] { group_.reset(); });
  script_.set_open(true);
  ASSERT_EQ(ended.wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(results_.size(), 5u);
  EXPECT_TRUE(script_.closed);
}

TEST_F(GroupCommitTest, RunsAFunctionBetweenTheBatchesAroundIt) {
  script_.set_open(false);
  submit(batch_of(0, 1));
  ASSERT_TRUE(script_.wait_until_committing());
  submit(batch_of(1, 1));
  std::size_t before = 0;
  Epoch epoch = 0;
  group_->post([&](Engine& engine) {
    before = results_.size();
    epoch = engine.claim(42)->epoch;
  });
  submit(batch_of(2, 1));
  script_.set_open(true);
  EXPECT_EQ(replies().size(), 3u);
  EXPECT_EQ(before, 2u);
  EXPECT_EQ(epoch, 42u);
  EXPECT_EQ(script_.commits, (std::vector<std::size_t>{1, 1, 1}));
  EXPECT_EQ(group_->engine().name(), "scripted");
}

TEST_F(GroupCommitTest, CopiesBesideTheCommitsOneAtATime) {
  script_.set_copy_open(false);
  std::promise<bool> first;
  group_->checkpoint("/first", [&](const Result<void>& done) { first.set_value(bool(done)); });
  submit(batch_of(0, 1));
  EXPECT_EQ(replies().size(), 1u) << "a commit waits for a copy";
  Result<void> second;
  group_->checkpoint("/second", [&](const Result<void>& done) { second = done; });
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::unavailable);
  script_.set_copy_open(true);
  EXPECT_TRUE(first.get_future().get());

  // The callback of one checkpoint may request the next one.
  std::promise<void> last_asked;
  std::promise<bool> last;
  group_->checkpoint("/next", [&](const Result<void>&) {
    script_.set_copy_open(false);
    group_->checkpoint("/last", [&](const Result<void>& done) { last.set_value(bool(done)); });
    last_asked.set_value();
  });
  last_asked.get_future().wait();
  script_.set_copy_open(true);
  group_.reset();
  std::future<bool> ended = last.get_future();
  ASSERT_EQ(ended.wait_for(std::chrono::seconds(0)), std::future_status::ready)
      << "the engine was closed under a copy";
  EXPECT_TRUE(ended.get());
}

TEST(GroupCommit, ServesManyThreadsAtOnce) {
  GroupCommit group(open_engine("memory:").value());
  constexpr int kThreads = 4;
  constexpr Revision kBatches = 500;
  std::atomic<int> durable = 0;
  std::vector<std::thread> threads;
  for (JobNumber job = 1; job <= kThreads; ++job) {
    threads.emplace_back([&group, &durable, job] {
      Epoch epoch = 0;
      run(group, [&](Engine& engine) { epoch = engine.claim(job)->epoch; });
      for (Revision n = 0; n < kBatches; ++n) {
        CommitBatch batch{
            n, {{job, epoch, n, n + 1, {{Row::Kind::put, "k", std::to_string(n)}}}}, {}};
        group.submit(std::move(batch), [&durable](const CommitResult& result) {
          if (result.jobs.at(0) == Outcome::durable) ++durable;
        });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  run(group, [](Engine&) {});
  EXPECT_EQ(durable, kThreads * static_cast<int>(kBatches));
}

}  // namespace
}  // namespace c10dd::store
