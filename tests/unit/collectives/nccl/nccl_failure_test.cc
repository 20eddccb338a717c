// SPDX-License-Identifier: Apache-2.0
// Failures over NCCL's stand-in: lost peers, time-outs, aborts, and what is missing when a group is
// opened.
#include <future>
#include <optional>

#include "collectives/abortable_group.h"
#include "collectives/backend.h"
#include "tests/unit/collectives/nccl/nccl_ranks.h"

namespace c10dd {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using test::await;
using test::contains;
using test::error_of;
using test::Groups;
using test::kAsync;
using test::on_device;
using test::open_groups;
using test::over_nccl;
using test::run_ranks;

class NcclFailures : public test::NcclTest {
 protected:
  /// Returns the text with which a group of two ranks is not opened.
  static std::string error_of_opening(GroupOptions options = over_nccl()) {
    return error_of([&] { open_groups(2, options); });
  }
};

TEST_F(NcclFailures, ALostPeerFailsTheWorkAtOnceAndTheCommunicatorIsAborted) {
  nccl.abort_ms = 1000;
  const Groups groups = open_groups(3, over_nccl());
  const int begun = nccl.aborts_begun;
  const int ended = nccl.aborts_ended;
  std::vector<float> values(4);
  nccl.stuck = true;
  const WorkPtr work = groups[0]->all_reduce(on_device(values, 0), ReduceOp::sum, kAsync);
  nccl.failing_rank = 1;
  EXPECT_THROW(work->wait_on_host(), Unavailable);
  EXPECT_EQ(nccl.aborts_ended, ended) << "the work has waited for the abort";
  EXPECT_EQ(work->error(),
            "all_reduce 0 of 4 float32 sum failed: a peer was lost: ncclCommGetAsyncError: remote "
            "process exited or there was a network error (socketProgress: Connection closed by "
            "remote peer)");
  EXPECT_THROW(groups[0]->barrier(), Unavailable);
  EXPECT_TRUE(await([&] { return nccl.aborts_begun >= begun + 2; }));
}

TEST_F(NcclFailures, TheDaemonsReasonNamesTheRank) {
  const auto point = std::make_shared<test::ThreadExchange>(2);
  std::shared_ptr<collectives::AbortableGroup> groups[2];
  run_ranks(2, [&](Rank rank) {
    groups[rank] =
        collectives::open_group(std::make_shared<test::ThreadBootstrap>(point, rank),
                                {.rank = rank, .size = 2}, over_nccl(), {.reason_patience = 10s});
  });
  std::vector<float> values(4);
  const WorkPtr work = groups[0]->all_reduce(on_device(values, 0), ReduceOp::sum, kAsync);
  nccl.failing_rank = 1;
  ASSERT_TRUE(await([&] { return nccl.aborts_begun > 0; }));
  Failure reason = failure(Code::aborted, "rank 1 on host-b (pid 7) is lost: killed by signal 9");
  reason.missing.push_back(
      {.rank = 1, .cause = MissingRank::Cause::dead, .host = "host-b", .pid = 7});
  groups[0]->abort(reason);
  EXPECT_THROW(work->wait_on_host(), Aborted);
  ASSERT_EQ(work->failed_ranks().size(), 1u);
  EXPECT_EQ(work->failed_ranks()[0].host, "host-b");
  EXPECT_TRUE(contains(work->error(), "rank 1 on host-b (pid 7)")) << work->error();
}

TEST_F(NcclFailures, ADeadlineEndsWorkOfEachLane) {
  const Groups groups = open_groups(2, over_nccl());
  std::vector<float> values(4);
  const WorkPtr sent =
      groups[0]->send(on_device(values, 0), 1, 0, {.timeout = 50ms, .async = true});
  EXPECT_THROW(sent->wait_on_host(), TimedOut);
  EXPECT_TRUE(contains(sent->error(), "send 0 to rank 1, tag 0 timed out after 0.05 s"))
      << sent->error();
  const WorkPtr late = groups[1]->barrier({.timeout = 50ms, .async = true});
  EXPECT_THROW(late->wait(), TimedOut);
  EXPECT_TRUE(contains(late->error(), "barrier 0 timed out after 0.05 s")) << late->error();
  EXPECT_TRUE(await([&] { return nccl.live_comms == 0; }));
}

TEST_F(NcclFailures, AbortEndsAllWorkOfTheGroupAtOnce) {
  nccl.stuck = true;
  nccl.abort_ms = 300;
  const Groups groups = open_groups(2, over_nccl());
  std::vector<float> values(4);
  std::vector<WorkPtr> works;
  for (int i = 0; i < 3; ++i) {
    works.push_back(groups[0]->all_reduce(on_device(values, 0), ReduceOp::sum, kAsync));
    works.push_back(groups[0]->isend(on_device(values, 0), 1));
  }
  const int ended = nccl.aborts_ended;
  groups[0]->abort("the trainer gave up");
  for (const WorkPtr& work : works) {
    EXPECT_NE(work->status(), Work::Status::pending);
    EXPECT_TRUE(contains(work->error(), "the trainer gave up")) << work->error();
  }
  EXPECT_EQ(nccl.aborts_ended, ended) << "the work has waited for the abort";
}

TEST_F(NcclFailures, TensorsAreHeldUntilTheAbortIsOver) {
  nccl.stuck = true;
  nccl.abort_ms = 200;
  const Groups groups = open_groups(2, over_nccl());
  const int ended = nccl.aborts_ended;
  auto values = std::make_shared<std::vector<float>>(4);
  const std::weak_ptr<void> held = values;
  Tensor tensor = on_device(*values, 0);
  tensor.owner = std::move(values);
  const WorkPtr work = groups[0]->all_reduce(std::move(tensor), ReduceOp::sum, kAsync);
  groups[0]->abort("enough");
  EXPECT_NE(work->status(), Work::Status::pending);
  while (!held.expired()) {
    if (nccl.aborts_ended == ended) continue;
    ASSERT_TRUE(await([&] { return held.expired(); }));
  }
  EXPECT_GT(nccl.aborts_ended, ended);
}

TEST_F(NcclFailures, TensorsAreHeldWhileTheStreamStillWaitsForTheCallers) {
  const Groups groups = open_groups(1, over_nccl());
  const int ended = nccl.aborts_ended;
  auto values = std::make_shared<std::vector<float>>(4);
  const std::weak_ptr<void> held = values;
  std::promise<void> go;
  stand_in::put_on_default_stream(0, [opened = go.get_future().share()] { opened.wait(); });
  Tensor tensor = on_device(*values, 0);
  tensor.owner = std::move(values);
  const int before = nccl.operations;
  const WorkPtr work = groups[0]->all_reduce(std::move(tensor), ReduceOp::sum, kAsync);
  ASSERT_TRUE(await([&] { return nccl.operations > before; }));
  groups[0]->abort("enough");
  EXPECT_TRUE(await([&] { return nccl.aborts_ended >= ended + 2; }));
  const auto later = Clock::now() + 50ms;
  while (Clock::now() < later) EXPECT_FALSE(held.expired());
  go.set_value();
  EXPECT_TRUE(await([&] { return held.expired(); }));
}

TEST_F(NcclFailures, AllCommunicatorsOfADeviceAreAbortedAtTheSameTime) {
  // The stand-in's abort returns only when all communicators that hang are being aborted.
  std::vector<Groups> all;
  for (int i = 0; i < 4; ++i) all.push_back(open_groups(2, over_nccl()));
  nccl.stuck = true;
  nccl.abort_ms = 100;
  std::vector<float> values(4);
  std::vector<WorkPtr> works;
  for (const Groups& groups : all) {
    works.push_back(groups[0]->all_reduce(on_device(values, 0), ReduceOp::sum, kAsync));
    works.push_back(groups[0]->isend(on_device(values, 0), 1));
  }
  const int ended = nccl.aborts_ended;
  ProcessGroup::abort_all("world", 0, "generation 0 has ended");
  for (const WorkPtr& work : works) EXPECT_EQ(work->code(), Code::aborted);
  EXPECT_TRUE(await([&] { return nccl.aborts_ended >= ended + 16; }));
}

TEST_F(NcclFailures, TheNextGroupOfADeviceWaitsForTheAborts) {
  Groups groups = open_groups(2, over_nccl());
  nccl.abort_ms = 300;
  nccl.stuck = true;
  std::vector<float> values(4);
  groups[0]->all_reduce(on_device(values, 0), ReduceOp::sum, kAsync);
  const int ended = nccl.aborts_ended;
  for (const auto& group : groups) group->abort("generation 1 has ended");
  nccl.stuck = false;
  const int ids = nccl.ids_made;
  const Groups next = open_groups(2, over_nccl());
  EXPECT_GE(nccl.aborts_ended, ended + 4);
  EXPECT_EQ(nccl.ids_made, ids + 1) << "survivors need a fresh id";
  run_ranks(2, [&](Rank rank) {
    std::vector<float> ones(4, 1.0f);
    next[rank]->all_reduce(on_device(ones, rank))->wait_on_host();
    EXPECT_EQ(ones[0], 2.0f);
  });
}

TEST_F(NcclFailures, AnAbortThatDoesNotEndFailsTheNextOpenAtItsDeadline) {
  const Groups groups = open_groups(1, over_nccl());
  nccl.abort_ms = 1000;
  groups[0]->abort("enough");
  GroupOptions options = over_nccl();
  options.open_timeout = 50ms;
  const std::string error = error_of([&] { open_groups(1, options); });
  EXPECT_TRUE(contains(error, "communicators of cuda:0 are still being aborted; restart")) << error;
}

TEST_F(NcclFailures, DestroyingAGroupWithPendingWorkBlocksForNobody) {
  nccl.stuck = true;
  nccl.abort_ms = 100;
  Groups groups = open_groups(2, over_nccl());
  std::vector<float> values(4);
  const WorkPtr work = groups[0]->all_reduce(on_device(values, 0), ReduceOp::sum, kAsync);
  std::promise<void> dropped;
  const WorkPtr second = groups[0]->all_reduce(on_device(values, 0), ReduceOp::sum, kAsync);
  work->on_end([&](Work&) {
    groups[0].reset();
    dropped.set_value();
  });
  nccl.failing_rank = 1;
  EXPECT_EQ(dropped.get_future().wait_for(20s), std::future_status::ready);
  EXPECT_EQ(second->code(), Code::unavailable);
  groups.clear();
}

TEST_F(NcclFailures, ACallThatNcclRefusesFailsWithItsName) {
  const Groups groups = open_groups(1, over_nccl());
  nccl.issue_status = 3;
  std::vector<float> values(4);
  const WorkPtr work = groups[0]->all_reduce(on_device(values, 0), ReduceOp::sum, kAsync);
  EXPECT_THROW(work->wait_on_host(), Error);
  EXPECT_EQ(work->code(), Code::internal);
  EXPECT_TRUE(contains(work->error(), "all_reduce 0 of 4 float32 sum failed: ncclAllReduce: "))
      << work->error();
}

TEST_F(NcclFailures, OutOfMemoryIsAFailureOfTheOperation) {
  const Groups groups = open_groups(1, over_nccl());
  cuda.memory_left = 1;
  std::vector<float> values(5'000'000);
  const WorkPtr work = groups[0]->all_reduce(tensor_of(values), ReduceOp::sum, kAsync);
  EXPECT_THROW(work->wait(), Error);
  EXPECT_TRUE(contains(work->error(), "out of memory")) << work->error();
}

TEST_F(NcclFailures, WithoutGpuTheErrorSaysSo) {
  // The driver was started before, so the device is what is missing.
  GroupOptions options = over_nccl();
  options.device = 9;
  const std::string error = error_of_opening(options);
  EXPECT_TRUE(contains(error,
                       "rank 0: nccl: process group \"world\": "
                       "GroupOptions::device is 9, but this process has 8 GPUs"))
      << error;
}

TEST_F(NcclFailures, TwoRanksOnOneGpuAreRefused) {
  GroupOptions options = over_nccl();
  options.device = 3;
  const std::string error = error_of_opening(options);
  EXPECT_TRUE(contains(error, "ranks 0 and 1 use the same GPU, 0000:03:00.0 of host ")) << error;
}

TEST_F(NcclFailures, ASplitThatTimesOutIsCalledSplit) {
  GroupOptions options = over_nccl();
  options.open_timeout = 100ms;
  const auto point = std::make_shared<test::ThreadExchange>(2);
  run_ranks(2, [&](Rank rank) {
    const auto group = collectives::open_backend(
        {{.rank = rank, .size = 2}, options, std::make_shared<test::ThreadBootstrap>(point, rank)});
    if (rank == 1) return;
    const auto none = (*group)->split(nullptr, -1, 0, Clock::now() + 100ms);
    ASSERT_FALSE(none);
    EXPECT_TRUE(contains(none.error().detail, "split timed out after 0.")) << none.error().detail;
  });
}

TEST_F(NcclFailures, ARankThatCannotConnectTimesOut) {
  nccl.never_connects = true;
  GroupOptions options = over_nccl();
  options.open_timeout = 100ms;
  const std::string error = error_of_opening(options);
  EXPECT_TRUE(contains(error, "nccl: process group \"world\" was not connected within ")) << error;
  EXPECT_TRUE(contains(error, "NCCL_DEBUG=INFO")) << error;
  EXPECT_TRUE(await([&] { return nccl.live_comms == 0; }));
}

}  // namespace
}  // namespace c10dd
