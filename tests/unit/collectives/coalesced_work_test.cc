// SPDX-License-Identifier: Apache-2.0
// The Work of several operations that were issued together, over a backend that the test plays: it
// ends with its last part, and the failure of one part is the failure of all.
#include "collectives/coalesced_work.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "client/errors.h"
#include "collectives/abortable_group.h"
#include "tests/unit/collectives/scripted_backend.h"
#include "tests/unit/collectives/thread_ranks.h"

namespace c10dd::collectives {
namespace {

using namespace std::chrono_literals;

class CoalescedParts : public testing::Test {
 protected:
  CoalescedParts() {
    script.name = "at once";
    script.lives_on = true;
    open();
  }
  void open() {
    group =
        group_over(std::make_shared<test::ScriptedBackend>(script), {.size = 2}, {.timeout = 1h});
  }
  /// Issues so many operations together, each with a tensor of its own.
  WorkPtr issue(std::size_t count) {
    std::vector<Operation> operations;
    for (std::size_t i = 0; i < count; ++i) {
      const auto memory = std::make_shared<std::vector<float>>(4);
      held.emplace_back(memory);
      Tensor tensor = tensor_of(*memory);
      tensor.owner = memory;
      operations.push_back({.collective = Collective::all_reduce, .output = tensor});
    }
    const std::size_t before = script.started();
    WorkPtr work = group->coalesce(std::move(operations), test::kAsync);
    EXPECT_TRUE(script.await_started(before + count));
    return work;
  }
  void expect_nothing_is_held() {
    for (const auto& one : held) EXPECT_TRUE(one.expired());
  }

  test::BackendScript script;
  std::shared_ptr<AbortableGroup> group;
  std::vector<std::weak_ptr<void>> held;
};

TEST_F(CoalescedParts, EndWithTheLastOfThemAndCallTheirCallbackOnce) {
  const WorkPtr work = issue(3);
  std::atomic<int> calls = 0;
  work->on_end([&](Work& ended) {
    EXPECT_EQ(ended.status(), Work::Status::done);
    EXPECT_EQ(&ended, work.get());
    ++calls;
  });
  EXPECT_THROW(work->on_end({}), InvalidArgument);
  for (const std::size_t index : {2u, 0u}) {
    script.end(index);
    EXPECT_EQ(work->status(), Work::Status::pending);
    EXPECT_FALSE(work->test());
    EXPECT_EQ(calls, 0);
  }
  EXPECT_THROW(work->wait(1ms), TimedOut);
  script.end(1);
  work->wait();
  work->wait_on_host();
  work->wait(1h);
  EXPECT_TRUE(work->test());
  EXPECT_EQ(work->status(), Work::Status::done);
  EXPECT_EQ(work->code(), Code::ok);
  EXPECT_EQ(work->sequence(), 0u);
  EXPECT_GT(work->duration(), Duration{0});
  EXPECT_EQ(calls, 1);
  work->on_end([&](Work&) { ++calls; });
  EXPECT_EQ(calls, 2) << "it has ended already";
  expect_nothing_is_held();
}

TEST_F(CoalescedParts, FailTogetherWhenAllHaveEnded) {
  for (const std::size_t failing : {0u, 1u, 2u}) {
    open();
    const std::size_t first = script.started();
    const WorkPtr work = issue(3);
    Failure lost = failure(Code::unavailable, "rank 1 was lost");
    lost.missing.emplace_back().rank = 1;
    auto waited = std::async(std::launch::async, [&] {
      return test::error_of([&] { failing == 1 ? work->wait_on_host() : work->wait(); });
    });
    script.end(first + failing, lost);
    script.end(first + (failing + 1) % 3);
    EXPECT_NE(waited.wait_for(10ms), std::future_status::ready)
        << "the tensors of the last one are in use";
    EXPECT_EQ(work->status(), Work::Status::pending);
    script.end(first + (failing + 2) % 3);
    EXPECT_TRUE(test::contains(waited.get(), "rank 1 was lost"));
    EXPECT_EQ(work->status(), Work::Status::failed);
    EXPECT_EQ(work->code(), Code::unavailable);
    EXPECT_TRUE(test::contains(work->error(), "rank 1 was lost")) << work->error();
    ASSERT_EQ(work->failed_ranks().size(), 1u);
    EXPECT_EQ(work->failed_ranks()[0].rank, 1u);
    const WorkPtr later = group->barrier(test::kAsync);
    EXPECT_EQ(later->status(), Work::Status::abandoned);
    EXPECT_EQ(script.started(), first + 3);
    expect_nothing_is_held();
  }
}

TEST_F(CoalescedParts, OfTwoCallsAreTwoBatches) {
  const WorkPtr first = issue(3);
  const WorkPtr second = issue(2);
  std::vector<std::uint64_t> batches;
  std::vector<std::uint32_t> following;
  for (std::size_t i = 0; i < 5; ++i) {
    batches.push_back(script.operation(i).batch);
    following.push_back(script.operation(i).following);
    EXPECT_EQ(script.operation(i).sequence, i);
  }
  EXPECT_NE(batches[0], 0u);
  EXPECT_NE(batches[0], batches[3]);
  EXPECT_EQ(batches, (std::vector<std::uint64_t>{batches[0], batches[0], batches[0], batches[3],
                                                 batches[3]}));
  EXPECT_EQ(following, (std::vector<std::uint32_t>{2, 1, 0, 1, 0}));
  for (const std::size_t index : {3u, 4u}) script.end(index);
  EXPECT_EQ(second->status(), Work::Status::done);
  EXPECT_EQ(first->status(), Work::Status::pending);
  EXPECT_EQ(second->sequence(), 3u);
  for (const std::size_t index : {0u, 1u, 2u}) script.end(index);
  EXPECT_EQ(first->status(), Work::Status::done);
  expect_nothing_is_held();
}

TEST_F(CoalescedParts, AreAbortedThroughTheirWork) {
  script.lives_on = false;
  const WorkPtr work = issue(2);
  work->abort("the trainer gave up");
  EXPECT_EQ(script.aborts().size(), 1u);
  EXPECT_EQ(work->status(), Work::Status::failed);
  EXPECT_EQ(work->code(), Code::aborted);
}

}  // namespace
}  // namespace c10dd::collectives
