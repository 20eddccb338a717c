// SPDX-License-Identifier: Apache-2.0
// When all threads that issue operations wait, and when they do not: before, after, nested, with a
// limit, and in a forked child.
#include "collectives/issuing_threads.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>
#include <list>
#include <memory>
#include <optional>
#include <thread>

#include "collectives/abortable_group.h"
#include "collectives/group_threads.h"
#include "tests/unit/collectives/scripted_backend.h"
#include "tests/unit/collectives/thread_ranks.h"
#include "tests/unit/comes_true.h"

namespace c10dd::collectives {
namespace {

using namespace std::chrono_literals;
using test::comes_true;
using test::kAsync;

/// The main thread, which may have issued operations in other tests, waits all the time.
class IssuingThreads : public testing::Test {
 protected:
  IssuingThreads() {
    note_issuing_thread();
    waiting_.emplace();
  }

 private:
  std::optional<WaitingForEnd> waiting_;
};

/// A group of two ranks over a backend that the test plays.
struct Played {
  test::BackendScript script;
  std::shared_ptr<AbortableGroup> group =
      group_over(std::make_shared<test::ScriptedBackend>(script), {.size = 2}, {.timeout = 60s});
};

/// A thread that stays until go().
class StayingThread {
 public:
  template <class Body>
  explicit StayingThread(Body body)
      : thread_([this, body] {
          body();
          done_.set_value();
          gate_.get_future().wait();
        }) {}
  ~StayingThread() {
    gate_.set_value();
    thread_.join();
  }
  void await_done() { done_.get_future().wait(); }

 private:
  std::promise<void> done_;
  std::promise<void> gate_;
  std::thread thread_;
};

TEST_F(IssuingThreads, AThreadThatDoesNotIssueDoesNotCount) {
  std::thread([] {
    EXPECT_TRUE(all_issuing_threads_wait());
    const WaitingForEnd waiting;
    EXPECT_TRUE(all_issuing_threads_wait());
  }).join();
}

TEST_F(IssuingThreads, ASynchronousOperationWaitsFromItsIssueToItsEnd) {
  Played played;
  StayingThread thread([&] { played.group->barrier(); });
  EXPECT_TRUE(played.script.await_started(1));
  EXPECT_TRUE(comes_true([] { return all_issuing_threads_wait(); }));
  played.script.end(0);
  thread.await_done();
  EXPECT_FALSE(all_issuing_threads_wait());
}

TEST_F(IssuingThreads, AnAsynchronousOperationWaitsOnlyInsideWait) {
  Played played;
  std::promise<void> go;
  StayingThread thread([&] {
    const WorkPtr work = played.group->barrier(kAsync);
    go.get_future().wait();
    work->wait();
  });
  EXPECT_TRUE(played.script.await_started(1));
  EXPECT_FALSE(all_issuing_threads_wait());
  go.set_value();
  EXPECT_TRUE(comes_true([] { return all_issuing_threads_wait(); }));
  played.script.end(0);
  thread.await_done();
  EXPECT_FALSE(all_issuing_threads_wait());
}

TEST_F(IssuingThreads, AThreadThatWaitsWithALimitMayGoOn) {
  Played played;
  std::promise<void> waits;
  StayingThread thread([&] {
    const WorkPtr work = played.group->barrier(kAsync);
    waits.set_value();
    work->wait(60s);
  });
  waits.get_future().wait();
  EXPECT_TRUE(played.script.await_started(1));
  EXPECT_FALSE(all_issuing_threads_wait());
  played.script.end(0);
  thread.await_done();
}

TEST_F(IssuingThreads, AllOfThemMustWaitAndThoseThatHaveEndedDoNotCount) {
  Played played;
  std::thread([&] {
    played.group->barrier(kAsync);
    EXPECT_FALSE(all_issuing_threads_wait());
  }).join();
  EXPECT_TRUE(all_issuing_threads_wait());
  std::optional<StayingThread> busy;
  busy.emplace([&] { played.group->barrier(kAsync); });
  busy->await_done();
  StayingThread waits([&] { played.group->barrier(); });
  EXPECT_TRUE(played.script.await_started(3));
  EXPECT_FALSE(all_issuing_threads_wait()) << "one of two waits";
  busy.reset();
  EXPECT_TRUE(comes_true([] { return all_issuing_threads_wait(); }));
  for (const std::size_t i : {0, 1, 2}) played.script.end(i);
  waits.await_done();
}

TEST_F(IssuingThreads, AGroupIsBlockedWhileAllThreadsThatHaveIssuedItsOperationsWait) {
  GroupThreads threads;
  EXPECT_FALSE(threads.all_wait()) << "nobody has issued any";
  std::promise<void> gate;
  const std::shared_future<void> open = gate.get_future().share();
  std::promise<void> waits;
  std::thread one([&] {
    threads.note();
    EXPECT_FALSE(threads.all_wait());
    const client::WaitingThread waiting;  // such as in a barrier
    waits.set_value();
    open.wait();
  });
  waits.get_future().wait();
  const auto first = threads.all_wait();
  EXPECT_TRUE(first) << "this thread waits, too, but has issued none";
  EXPECT_EQ(threads.all_wait(), first) << "in the same wait";
  StayingThread another([&] { threads.note(); });
  another.await_done();
  EXPECT_FALSE(threads.all_wait()) << "one of two waits";
  threads.note();
  gate.set_value();
  one.join();
}

TEST_F(IssuingThreads, AThreadThatHasEndedIssuesNothingAndAnotherWaitIsAnother) {
  GroupThreads threads;
  for (std::size_t i = 0; i < 2 * GroupThreads::kThreads; ++i) {
    std::thread([&] { threads.note(); }).join();
    EXPECT_FALSE(threads.all_wait()) << "none lives";
  }
  threads.note();  // this thread waits, see the fixture
  const auto first = threads.all_wait();
  EXPECT_TRUE(first);
  StayingThread other([&] {
    threads.note();
    threads.note();
    const client::WaitingThread waiting;
    EXPECT_TRUE(threads.all_wait());
    EXPECT_NE(threads.all_wait(), first);
  });
  other.await_done();
  EXPECT_FALSE(threads.all_wait());
}

TEST_F(IssuingThreads, NobodyIsBlockedInAGroupThatTooManyThreadsUse) {
  GroupThreads threads;
  std::list<StayingThread> all;
  for (std::size_t i = 0; i < GroupThreads::kThreads + 1; ++i) {
    all.emplace_back([&] {
      const client::WaitingThread waiting;
      threads.note();
      EXPECT_EQ(threads.all_wait().has_value(), i == 0) << "the others wait no longer";
    });
    all.back().await_done();
  }
  all.clear();
  threads.note();
  EXPECT_FALSE(threads.all_wait()) << "which others there are is not known";
}

TEST_F(IssuingThreads, NestedWaitsOfOneThreadCountOnce) {
  std::thread([] {
    std::optional<WaitingForEnd> outer(std::in_place);
    {
      const WaitingForEnd inner;
      note_issuing_thread();  // such as in a callback
      EXPECT_TRUE(all_issuing_threads_wait());
      note_issuing_thread();
    }
    EXPECT_TRUE(all_issuing_threads_wait());
    outer.reset();
    EXPECT_FALSE(all_issuing_threads_wait());
    outer.emplace();
    EXPECT_TRUE(all_issuing_threads_wait());
    outer.reset();
  }).join();
  EXPECT_TRUE(all_issuing_threads_wait());
}

TEST_F(IssuingThreads, AForkedChildStartsAnew) {
  std::thread([] {
    note_issuing_thread();
    std::optional<WaitingForEnd> waiting(std::in_place);
    EXPECT_TRUE(all_issuing_threads_wait());
    const pid_t child = fork();
    if (child == 0) {
      int wrong = all_issuing_threads_wait() ? 1 : 0;
      note_issuing_thread();
      if (!all_issuing_threads_wait()) wrong += 2;  // it is still inside the wait
      waiting.reset();
      if (all_issuing_threads_wait()) wrong += 4;
      _exit(wrong);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
    EXPECT_TRUE(all_issuing_threads_wait());
  }).join();
}

}  // namespace
}  // namespace c10dd::collectives
