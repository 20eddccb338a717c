// SPDX-License-Identifier: Apache-2.0
// How a group runs its operations: order, threads, callbacks, hooks and memory. The backends of
// this file end operations when the test says so, or only while a thread calls progress().
#include "collectives/call_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <future>
#include <mutex>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "client/errors.h"
#include "collectives/abortable_group.h"
#include "tests/unit/collectives/thread_ranks.h"
#include "tests/unit/entries.h"

namespace {
std::atomic<std::uint64_t> allocations{0};
}

// Replaces the functions of the whole program, in order to count.
void* operator new(std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace c10dd::collectives {
namespace {

using namespace std::chrono_literals;

constexpr CallOptions kAsync{.async = true};

/// Remembers what was started, on which thread. Ends operations in finish() or progress().
class HeldBackend final : public Backend {
 public:
  explicit HeldBackend(Traits traits) : traits_(traits) {}

  Traits traits() const override { return traits_; }

  bool supports(Collective, DType, ReduceOp, Device) const override { return true; }
  bool starts_at_once(const Operation&) const override { return at_once; }
  std::atomic<bool> at_once = false;
  std::atomic<bool> aborted = false;
  std::atomic<bool> cannot_start = false;

  void start(const Operation& operation, Completion& completion) override {
    if (cannot_start) throw std::runtime_error("no thread");
    const std::lock_guard lock(mutex_);
    started_.push_back(operation.sequence);
    threads_.push_back(std::this_thread::get_id());
    held_.push_back(&completion);
    changed_.notify_all();
  }

  void progress() override {
    if (traits_.needs_progress && ++polls_ % 3 == 0) finish({});
  }

  void abort(const std::string& reason) override {
    aborted = true;
    while (finish(failure(Code::aborted, reason))) continue;
  }

  std::string describe() const override { return "held"; }

  /// Ends the oldest operation that has not ended. Returns false if there is none.
  bool finish(Result<void> result) {
    Completion* oldest = nullptr;
    {
      const std::lock_guard lock(mutex_);
      if (held_.empty()) return false;
      oldest = held_.front();
      held_.pop_front();
    }
    oldest->complete(std::move(result));
    return true;
  }

  /// Puts the oldest operation that has not ended on a stream of a device.
  void enqueue(std::shared_ptr<DeviceEnd> end) {
    const std::lock_guard lock(mutex_);
    held_.front()->enqueued(std::move(end));
  }

  void await_started(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return started_.size() >= count; });
  }

  std::vector<std::uint64_t> started() {
    const std::lock_guard lock(mutex_);
    return started_;
  }
  std::vector<std::thread::id> threads() {
    const std::lock_guard lock(mutex_);
    return threads_;
  }

 private:
  const Traits traits_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::uint64_t> started_;
  std::vector<std::thread::id> threads_;
  std::deque<Completion*> held_;
  std::atomic<int> polls_ = 0;
};

/// Records the events of each operation as "e0 s0 f0 ", with the sequences.
class EventHook final : public Hook {
 public:
  void opened(const World& world) noexcept override { add("opened ", world.size); }
  void enqueued(const CollectiveCall& call) noexcept override { add("e", call.operation.sequence); }
  void started(const CollectiveCall& call) noexcept override { add("s", call.operation.sequence); }
  void finished(const CollectiveCall& call) noexcept override { add("f", call.operation.sequence); }
  std::string events() {
    const std::lock_guard lock(mutex_);
    return events_;
  }

 private:
  void add(const char* what, std::uint64_t number) {
    const std::lock_guard lock(mutex_);
    events_ += what + std::to_string(number) + " ";
  }
  std::mutex mutex_;
  std::string events_;
};

/// A group of one rank over a HeldBackend.
struct Held {
  explicit Held(Traits traits = {}, std::vector<std::shared_ptr<Hook>> hooks = {})
      : backend(std::make_shared<HeldBackend>(traits)) {
    group = group_over(backend, {.size = 2}, {.timeout = 60s, .hooks = std::move(hooks)});
  }

  const std::shared_ptr<HeldBackend> backend;
  std::shared_ptr<ProcessGroup> group;
};

std::vector<std::shared_ptr<ProcessGroup>> loopback(GroupOptions options = {}) {
  options.backend = "loopback";
  return test::open_groups(1, options);
}

TEST(CallQueue, SynchronousCallsRunOnTheirCallersThread) {
  Held held;
  for (int round = 0; round < 2; ++round) {
    std::jthread finisher([&] {
      held.backend->await_started(static_cast<std::size_t>(round) + 1);
      held.backend->finish({});
    });
    const WorkPtr work = held.group->barrier();
    EXPECT_EQ(work->status(), Work::Status::done);
    EXPECT_TRUE(work->test());
  }
  for (const auto id : held.backend->threads()) EXPECT_EQ(id, std::this_thread::get_id());
}

TEST(CallQueue, TheWorkerRunsWhatTheBackendDoesNotAllowCallersToRun) {
  Held held({.on_callers_thread = false});
  std::jthread finisher([&] {
    held.backend->await_started(1);
    held.backend->finish({});
  });
  held.group->barrier();
  EXPECT_NE(held.backend->threads()[0], std::this_thread::get_id());
}

TEST(CallQueue, ASynchronousCallThrowsWhatWaitWouldThrow) {
  Held held;
  Failure lost = failure(Code::unavailable, "lost rank 1");
  lost.missing.push_back({.rank = 1, .cause = MissingRank::Cause::disconnected, .host = "host-b"});
  std::jthread finisher([&] {
    held.backend->await_started(1);
    held.backend->finish(lost);
  });
  try {
    held.group->barrier();
    ADD_FAILURE();
  } catch (const Unavailable& error) {
    EXPECT_STREQ(error.what(), "lost rank 1");
  }
  const WorkPtr later = held.group->barrier(kAsync);
  EXPECT_EQ(later->status(), Work::Status::abandoned);
  ASSERT_EQ(later->failed_ranks().size(), 1u);
  EXPECT_EQ(later->failed_ranks()[0].rank, 1u);
  EXPECT_EQ(later->failed_ranks()[0].host, "host-b");
  EXPECT_EQ(later->failed_ranks()[0].cause, "disconnected");
}

TEST(CallQueue, StartsNoMoreOperationsThanTheBackendTakes) {
  Held held({.in_flight = 2});
  std::vector<WorkPtr> works;
  for (int i = 0; i < 4; ++i) works.push_back(held.group->barrier(kAsync));
  held.backend->await_started(2);
  EXPECT_EQ(held.backend->started(), (std::vector<std::uint64_t>{0, 1}));
  held.backend->finish({});
  held.backend->await_started(3);
  EXPECT_EQ(held.backend->started().size(), 3u);
  EXPECT_TRUE(works[0]->test());
  EXPECT_FALSE(works[1]->test());
  held.backend->finish({});
  held.backend->finish({});
  held.backend->await_started(4);
  held.backend->finish({});
  works[3]->wait();
}

TEST(CallQueue, SynchronousAndAsynchronousCallsOfManyThreadsKeepOneOrder) {
  const auto hook = std::make_shared<EventHook>();
  const auto groups = loopback({.hooks = {hook}});
  constexpr int kThreads = 4;
  constexpr int kCalls = 500;
  std::atomic<int> ended = 0;
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        std::vector<float> values(3, 1.0f);
        std::vector<WorkPtr> works;
        for (int i = 0; i < kCalls; ++i) {
          const bool async = (i + thread) % 3 == 0;
          WorkPtr work = groups[0]->all_reduce(tensor_of(values), ReduceOp::max, {.async = async});
          EXPECT_TRUE(async || work->status() == Work::Status::done);
          work->on_end([&](Work&) { ++ended; });
          works.push_back(std::move(work));
        }
        for (const WorkPtr& work : works) work->wait();
      });
    }
  }
  groups[0]->shutdown();
  while (ended < kThreads * kCalls) std::this_thread::yield();  // the last callback may still run
  std::istringstream events(hook->events());
  std::vector<std::string> begun;
  std::vector<std::string> finished;
  for (std::string event; events >> event;) {
    if (event[0] == 's') begun.push_back(event.substr(1));
    if (event[0] == 'f') finished.push_back(event.substr(1));
  }
  ASSERT_EQ(begun.size(), static_cast<std::size_t>(kThreads * kCalls));
  for (std::size_t i = 0; i < begun.size(); ++i) ASSERT_EQ(begun[i], std::to_string(i));
  EXPECT_EQ(finished, begun);
}

TEST(CallQueue, OperationsThatNeedProgressEndWhileACallerWaitsOrTests) {
  Held held({.in_flight = 8, .needs_progress = true});
  held.group->barrier();  // waits, and so drives the backend
  const WorkPtr work = held.group->barrier(kAsync);
  while (!work->test()) continue;
  const WorkPtr third = held.group->barrier(kAsync);
  EXPECT_NO_THROW(third->wait(10s));
  const WorkPtr fourth = held.group->barrier(kAsync);
  held.group->shutdown();
  EXPECT_EQ(fourth->status(), Work::Status::done);
}

TEST(CallQueue, ACallThatWaitsForItsTurnDrivesTheBackend) {
  Held held({.in_flight = 1, .needs_progress = true});
  const WorkPtr first = held.group->barrier(kAsync);
  held.backend->await_started(1);
  held.group->barrier();
  EXPECT_EQ(first->status(), Work::Status::done);
}

TEST(CallQueue, HooksSeeExactlyOneEndHoweverAnOperationEnds) {
  const auto hook = std::make_shared<EventHook>();
  Held held({}, {hook});
  std::vector<WorkPtr> works;
  for (int i = 0; i < 3; ++i) works.push_back(held.group->barrier(kAsync));
  held.backend->await_started(1);
  held.group->abort("enough");
  for (const WorkPtr& work : works) EXPECT_THROW(work->wait(), Aborted);
  held.group->barrier(kAsync);
  held.group->shutdown();
  EXPECT_EQ(hook->events().substr(0, 9), "opened 2 ");
  for (const char* event : {"e0", "s0", "f0", "e1", "f1", "e2", "f2", "e3", "f3"}) {
    const std::string one = std::string(event) + " ";
    EXPECT_EQ(hook->events().find(one), hook->events().rfind(one)) << event;
    EXPECT_NE(hook->events().find(one), std::string::npos) << event;
  }
  EXPECT_EQ(hook->events().find("s1"), std::string::npos);
}

TEST(CallQueue, AnOperationThatCannotStartEndsThoseBeforeIt) {
  Held held({.in_flight = 2});
  const WorkPtr first = held.group->barrier(kAsync);
  held.backend->await_started(1);
  held.backend->cannot_start = true;
  const WorkPtr second = held.group->barrier(kAsync);
  EXPECT_THROW(second->wait(), Error);
  EXPECT_EQ(second->error(), "barrier: no thread");
  EXPECT_THROW(first->wait(10s), Error);
  EXPECT_EQ(first->error(), second->error());
  EXPECT_TRUE(held.backend->aborted);
}

TEST(CallQueue, ACallbackRunsOnceOnTheEndingThreadAndAtOnceAfterTheEnd) {
  Held held;
  const WorkPtr work = held.group->barrier(kAsync);
  std::promise<std::thread::id> ran;
  work->on_end([&](Work& ended) {
    EXPECT_EQ(ended.status(), Work::Status::done);
    ran.set_value(std::this_thread::get_id());
  });
  held.backend->await_started(1);
  std::thread::id finisher;
  std::jthread([&] {
    finisher = std::this_thread::get_id();
    held.backend->finish({});
  }).join();
  const std::thread::id by = ran.get_future().get();
  EXPECT_TRUE(by == finisher || by == held.backend->threads()[0]);
  bool again = false;
  work->on_end([&](Work&) { again = true; });
  EXPECT_TRUE(again);
  EXPECT_THROW(work->on_end(nullptr), InvalidArgument);
}

/// Keeps operations from running until the test lets them.
struct GateHook final : Hook {
  explicit GateHook(std::shared_future<void> opened) : open(std::move(opened)) {}
  void started(const CollectiveCall&) noexcept override { open.wait(); }
  const std::shared_future<void> open;
};

TEST(CallQueue, ACallbackMayDropTheLastReferenceToItsGroup) {
  for (int round = 0; round < 20; ++round) {
    std::promise<void> go;
    auto groups = loopback({.hooks = {std::make_shared<GateHook>(go.get_future().share())}});
    std::shared_ptr<ProcessGroup> group = std::move(groups[0]);
    std::promise<void> dropped;
    std::vector<WorkPtr> works;
    works.push_back(group->barrier(kAsync));
    works[0]->on_end([&](Work&) {
      group.reset();  // on the worker thread, with work in the queue
      dropped.set_value();
    });
    for (int i = 0; i < 3; ++i) works.push_back(group->barrier(kAsync));
    go.set_value();
    dropped.get_future().wait();
    for (const WorkPtr& work : works) EXPECT_NE(work->status(), Work::Status::pending);
  }
}

TEST(CallQueue, ACallbackMayDropItsGroupWhenOneThreadFailsAllThatIsInFlight) {
  Held held({.in_flight = 8});
  std::vector<WorkPtr> works;
  for (int i = 0; i < 3; ++i) works.push_back(held.group->barrier(kAsync));
  std::promise<void> dropped;
  works[0]->on_end([&](Work&) {
    held.group.reset();
    dropped.set_value();
  });
  held.backend->await_started(3);
  std::jthread([&] {
    while (held.backend->finish(failure(Code::unavailable, "lost rank 1"))) continue;
  }).join();
  EXPECT_EQ(dropped.get_future().wait_for(10s), std::future_status::ready);
  for (const WorkPtr& work : works) EXPECT_EQ(work->code(), Code::unavailable);
}

TEST(CallQueue, AGroupThatIsDestroyedRightAfterWaitIsNotAborted) {
  for (int round = 0; round < 300; ++round) {
    Held held({.in_flight = 8});
    held.backend->at_once = true;
    const WorkPtr work = held.group->barrier(kAsync);
    std::jthread finisher([&] { held.backend->finish({}); });
    work->wait();
    held.group.reset();
    EXPECT_FALSE(held.backend->aborted);
  }
}

/// Remembers the streams that were made to wait.
struct Streams final : DeviceEnd {
  Result<void> order(void* stream) override {
    ordered.push_back(stream);
    return {};
  }
  std::vector<void*> ordered;
};

TEST(CallQueue, WaitOrdersAStreamBehindAnOperationOnADevice) {
  Held held({.in_flight = 8});
  float memory = 0;
  float other = 0;
  Tensor tensor = tensor_of(&memory, 1);
  tensor.device = {Device::Kind::cuda, 0};
  tensor.stream = &memory;
  const WorkPtr work = held.group->all_reduce(tensor, ReduceOp::sum, kAsync);
  held.backend->await_started(1);
  const auto streams = std::make_shared<Streams>();
  std::jthread enqueuer([&] { held.backend->enqueue(streams); });
  work->wait();
  work->wait(&other);
  EXPECT_EQ(work->status(), Work::Status::pending);
  EXPECT_EQ(streams->ordered, (std::vector<void*>{&memory, &other}));
  EXPECT_THROW(work->wait(1ms), TimedOut);
  std::jthread finisher([&] { held.backend->finish({}); });
  work->wait_on_host();
  EXPECT_EQ(work->status(), Work::Status::done);
  work->wait(&other);  // it has ended, so there is nothing to wait for
  EXPECT_EQ(streams->ordered.size(), 2u);
}

TEST(CallQueue, WaitThrowsIfAnOperationOnADeviceHasFailedBeforeIt) {
  Held held;
  float memory = 0;
  Tensor tensor = tensor_of(&memory, 1);
  tensor.device = {Device::Kind::cuda, 0};
  const WorkPtr work = held.group->all_reduce(tensor, ReduceOp::sum, kAsync);
  held.backend->await_started(1);
  held.backend->finish(failure(Code::unavailable, "lost rank 1"));
  EXPECT_THROW(work->wait(), Unavailable);
  EXPECT_THROW(work->wait(nullptr), Unavailable);
  EXPECT_THROW(work->wait_on_host(), Unavailable);
}

TEST(CallQueue, AnOperationThatStartsAtOnceIsStartedByItsCaller) {
  Held held({.in_flight = 2});
  held.backend->at_once = true;
  std::vector<WorkPtr> works;
  for (int i = 0; i < 3; ++i) works.push_back(held.group->barrier(kAsync));
  EXPECT_EQ(held.backend->started().size(), 2u);  // without await_started()
  for (const auto id : held.backend->threads()) EXPECT_EQ(id, std::this_thread::get_id());
  held.backend->finish({});
  held.backend->await_started(3);  // the third had to wait, so the worker has started it
  EXPECT_NE(held.backend->threads()[2], std::this_thread::get_id());
  held.backend->finish({});
  held.backend->finish({});
  for (const WorkPtr& work : works) work->wait();
}

TEST(CallQueue, AWorkAbortsItsGroup) {
  Held held;
  const WorkPtr work = held.group->barrier(kAsync);
  held.backend->await_started(1);
  work->abort("the trainer gave up");
  EXPECT_THROW(work->wait(), Aborted);
  EXPECT_NE(work->error().find("the trainer gave up"), std::string::npos) << work->error();
  held.group.reset();
  work->abort("again");  // harmless after the group is gone
}

TEST(CallQueue, AGroupThatIsUsedSynchronouslyStartsNoThread) {
  std::thread([] {}).join();  // with the first thread, a sanitizer starts one of its own
  const std::size_t before = test::threads_here();
  const auto groups = loopback();
  std::vector<float> values(8);
  for (int i = 0; i < 10; ++i) groups[0]->all_reduce(tensor_of(values));
  EXPECT_EQ(test::threads_here(), before);
  groups[0]->all_reduce(tensor_of(values), ReduceOp::sum, kAsync)->wait();
  EXPECT_EQ(test::threads_here(), before + 1);
}

TEST(CallQueue, CallsDoNotAllocateMemory) {
  const auto groups = loopback();
  std::vector<float> values(8);
  const auto issue = [&] {
    for (int i = 0; i < 200; ++i) groups[0]->all_reduce(tensor_of(values));
    for (int i = 0; i < 200; ++i) {
      groups[0]->all_reduce(tensor_of(values), ReduceOp::sum, kAsync)->wait();
    }
  };
  // A call may live a little longer than its wait(), so there must be memory for several.
  std::vector<WorkPtr> works;
  for (int i = 0; i < 8; ++i) {
    works.push_back(groups[0]->all_reduce(tensor_of(values), ReduceOp::sum, kAsync));
  }
  works.clear();
  issue();
  const std::uint64_t before = allocations.load();
  issue();
  EXPECT_EQ(allocations.load() - before, 0u);
}

}  // namespace
}  // namespace c10dd::collectives
