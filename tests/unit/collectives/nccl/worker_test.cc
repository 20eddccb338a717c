// SPDX-License-Identifier: Apache-2.0
// The threads of the backend nccl, over tasks that the test plays: the worker, and the thread that
// frees memory.
#include "collectives/nccl/worker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "collectives/nccl/freeing_thread.h"
#include "tests/unit/comes_true.h"

namespace c10dd::collectives::nccl {
namespace {

using namespace std::chrono_literals;
using test::comes_true;
using Step = Worker::Task::Step;

/// What several tasks have done, in its order.
class Diary {
 public:
  void add(const std::string& what) {
    const std::lock_guard lock(mutex_);
    all_.push_back(what);
  }
  std::vector<std::string> all() const {
    const std::lock_guard lock(mutex_);
    return all_;
  }
  std::ptrdiff_t count(const std::string& what) const { return std::ranges::count(all(), what); }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> all_;
};

class PlayedTask final : public Worker::Task {
 public:
  PlayedTask(Diary& diary, std::string name) : diary_(diary), name_(std::move(name)) {}
  void issue() override {
    diary_.add(name_ + " issue");
    if (on_issue) on_issue();
  }
  Step poll(Worker::Clock::time_point) override {
    ++polls;
    return step;
  }
  std::atomic<Step> step = Step::ended;
  std::atomic<int> polls = 0;
  std::function<void()> on_issue;

 private:
  Diary& diary_;
  const std::string name_;
};

TEST(NcclWorker, IssuesOnceForEachWakeInTheirOrder) {
  Diary diary;
  const auto first = std::make_shared<PlayedTask>(diary, "a");
  const auto second = std::make_shared<PlayedTask>(diary, "b");
  std::promise<void> go;
  first->on_issue = [opened = go.get_future().share()] { opened.wait(); };
  for (const auto& task : {first, second, first, first}) {
    ASSERT_TRUE(Worker::instance().wake(task));
  }
  go.set_value();
  EXPECT_TRUE(comes_true([&] { return diary.all().size() == 4; }));
  EXPECT_EQ(diary.all(), (std::vector<std::string>{"a issue", "b issue", "a issue", "a issue"}));
  EXPECT_TRUE(comes_true([&] { return first.use_count() == 1 && second.use_count() == 1; }))
      << "a task that has ended is kept";
}

TEST(NcclWorker, LooksAgainUntilATaskHasEndedAndNotAfterwards) {
  Diary diary;
  const auto waits = std::make_shared<PlayedTask>(diary, "waits");
  const auto advances = std::make_shared<PlayedTask>(diary, "advances");
  waits->step = Step::waits;
  advances->step = Step::advanced;
  for (const auto& task : {waits, advances}) ASSERT_TRUE(Worker::instance().wake(task));
  EXPECT_TRUE(comes_true([&] { return waits->polls > 20 && advances->polls > 20; }));
  waits->step = Step::ended;
  EXPECT_TRUE(comes_true([&] { return waits.use_count() == 1; }));
  const int polls = waits->polls;
  const int others = advances->polls;
  EXPECT_TRUE(comes_true([&] { return advances->polls > others + 20; }));
  EXPECT_EQ(waits->polls, polls) << "it has ended";
  advances->step = Step::ended;
  EXPECT_TRUE(comes_true([&] { return advances.use_count() == 1; }));
  EXPECT_EQ(diary.count("waits issue"), 1);
}

TEST(NcclWorker, ATaskThatIsWokenTwiceIsOneTask) {
  Diary diary;
  const auto task = std::make_shared<PlayedTask>(diary, "task");
  const auto other = std::make_shared<PlayedTask>(diary, "other");
  task->step = other->step = Step::waits;
  for (const auto& one : {task, other, task, task}) ASSERT_TRUE(Worker::instance().wake(one));
  EXPECT_TRUE(comes_true([&] { return diary.all().size() == 4; }));
  const int others = other->polls;
  const int before = task->polls;
  EXPECT_TRUE(comes_true([&] { return other->polls > others + 100; }));
  const int asked = task->polls - before;
  EXPECT_LE(asked, other->polls - others + 2) << "it is asked twice in each round";
  task->step = other->step = Step::ended;
  EXPECT_TRUE(comes_true([&] { return task.use_count() == 1 && other.use_count() == 1; }));
}

TEST(NcclWorker, AWakeIsNoticedAtOnceAndNotWhenTheThreadLooksAnyway) {
  // Without the notification each round would take a second.
  Diary diary;
  const auto begin = std::chrono::steady_clock::now();
  constexpr int kRounds = 100;
  for (int i = 0; i < kRounds; ++i) {
    const auto task = std::make_shared<PlayedTask>(diary, "task");
    ASSERT_TRUE(Worker::instance().wake(task));
    ASSERT_TRUE(comes_true([&] { return task.use_count() == 1; }));
    ASSERT_LT(std::chrono::steady_clock::now() - begin, kRounds * 500ms);
  }
  EXPECT_EQ(diary.count("task issue"), kRounds);
}

TEST(NcclWorker, OnlyItsOwnThreadMustNotWaitForIt) {
  Diary diary;
  EXPECT_TRUE(Worker::require_other_thread("a group cannot be opened"));
  std::promise<Result<void>> inside;
  const auto task = std::make_shared<PlayedTask>(diary, "task");
  task->on_issue = [&] { inside.set_value(Worker::require_other_thread("a group cannot do it")); };
  ASSERT_TRUE(Worker::instance().wake(task));
  const Result<void> refused = inside.get_future().get();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::invalid_argument);
  EXPECT_EQ(refused.error().detail.rfind("nccl: a group cannot do it in a Work callback", 0), 0u);
  EXPECT_TRUE(comes_true([&] { return task.use_count() == 1; }));
}

TEST(NcclFreeingThread, RunsAllTasksInOrderAndDestroysEachBeforeTheNext) {
  Diary diary;
  std::promise<void> go;
  const auto kept = std::make_shared<int>();
  FreeingThread::instance().run([&, opened = go.get_future().share()] {
    opened.wait();
    diary.add("first");
  });
  const auto noted = [&](const char* what) {
    return std::shared_ptr<void>(nullptr, [&diary, what](void*) { diary.add(what); });
  };
  FreeingThread::instance().run([&, own = noted("second is gone"), kept] { diary.add("second"); });
  FreeingThread::instance().run([&, own = noted("third is gone"), kept] { diary.add("third"); });
  EXPECT_TRUE(diary.all().empty());
  EXPECT_EQ(kept.use_count(), 3);
  go.set_value();
  EXPECT_TRUE(comes_true([&] { return kept.use_count() == 1; }));
  EXPECT_TRUE(comes_true([&] { return diary.all().size() == 5; }));
  EXPECT_EQ(diary.all(), (std::vector<std::string>{"first", "second", "second is gone", "third",
                                                   "third is gone"}));
}

TEST(NcclFreeingThread, StartsAgainAfterItHasEnded) {
  for (int i = 0; i < 100; ++i) {
    std::promise<void> ran;
    FreeingThread::instance().run([&] { ran.set_value(); });
    ASSERT_EQ(ran.get_future().wait_for(60s), std::future_status::ready) << i;
  }
}

TEST(NcclFreeingThread, ATaskMayAddAnother) {
  std::promise<void> ran;
  FreeingThread::instance().run([&] { FreeingThread::instance().run([&] { ran.set_value(); }); });
  EXPECT_EQ(ran.get_future().wait_for(60s), std::future_status::ready);
}

}  // namespace
}  // namespace c10dd::collectives::nccl
