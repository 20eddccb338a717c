// SPDX-License-Identifier: Apache-2.0
// The lane of the backend nccl over its stand-ins: its places, its ends, and what it gives back
// after success, failure, abort and a deadline.
#include "collectives/nccl/lane.h"

#include <atomic>
#include <string>

#include "tests/unit/collectives/nccl/nccl_parts.h"

namespace c10dd::collectives::nccl {
namespace {

using namespace std::chrono_literals;
using test::await;
using test::contains;
using test::HeldStream;
using test::LaneCall;
using test::TwoLanes;

class LaneTest : public test::NcclTest {
 protected:
  using Calls = std::deque<LaneCall>;

  /// Adds so many operations of a rank, and starts them, as one batch if `batch` is not 0.
  void start(TwoLanes& two, Calls& calls, Rank rank, std::uint32_t count, std::uint64_t batch = 0) {
    for (std::uint32_t i = 0; i < count; ++i) {
      LaneCall& call = calls.emplace_back(rank, 1.0F + static_cast<float>(rank));
      call.operation.batch = batch;
      call.operation.following = count - 1 - i;
      two.start(rank, call);
    }
  }
  /// Runs operations of other lanes: by then the worker has issued what may be issued.
  void let_the_worker_look(TwoLanes& others) { others.expect_works(); }
};

TEST_F(LaneTest, AnOperationIsEnqueuedAndEndsOnceAndItsTensorIsLetGo) {
  TwoLanes two;
  LaneCall own(0, 1.0F);
  LaneCall other(1, 2.0F);
  two.start(0, own);
  two.start(1, other);
  EXPECT_EQ(own.end.code(), Code::ok);
  EXPECT_EQ(other.end.code(), Code::ok);
  EXPECT_FALSE(own.end.was_message());
  EXPECT_NE(own.end.device_end, nullptr);
  EXPECT_EQ(own.value->front(), 3.0F);
  const std::weak_ptr<void> held = own.drop();
  EXPECT_TRUE(await([&] { return held.expired(); }));
}

TEST_F(LaneTest, AnOperationHasBegunWhenTheStreamHasGotToIt) {
  TwoLanes two;
  TwoLanes others;
  Calls calls[2];
  void* const caller = *test::cuda_device(0).make_stream();
  HeldStream held(caller);
  calls[0].emplace_back(0, 1.0F).operation.output.stream = caller;
  two.start(0, calls[0].front());
  start(two, calls[0], 0, 3, 7);
  let_the_worker_look(others);
  for (const LaneCall& call : calls[0]) EXPECT_FALSE(call.end.has_begun());
  held.go();
  EXPECT_TRUE(await([&] { return calls[0].front().end.has_begun(); }));
  let_the_worker_look(others);
  EXPECT_FALSE(calls[0].front().end.has_ended()) << "rank 1 has not issued it";
  EXPECT_FALSE(calls[0].back().end.has_begun()) << "it is behind the first";
  start(two, calls[1], 1, 1);
  EXPECT_TRUE(await([&] { return calls[0].back().end.has_begun(); })) << "with its batch";
  start(two, calls[1], 1, 3, 7);
  for (auto& rank : calls) {
    for (LaneCall& call : rank) {
      EXPECT_EQ(call.end.code(), Code::ok) << call.end.text();
      EXPECT_TRUE(call.end.has_begun());
    }
  }
  test::cuda_device(0).destroy_stream(caller);
}

TEST_F(LaneTest, AnOperationThatNcclIsStillBusyWithHasBegun) {
  TwoLanes two;
  LaneCall call(0, 1.0F);
  nccl.polls_in_progress = 1'000'000'000;  // it connects to a peer that does not come
  two.start(0, call);
  EXPECT_TRUE(await([&] { return call.end.has_begun(); }));
  EXPECT_FALSE(call.end.has_ended());
  two.lanes[0]->fail(failure(Code::aborted, "lost"));
  EXPECT_EQ(call.end.text(), "lost");
  nccl.polls_in_progress = 0;
}

TEST_F(LaneTest, SixtyFourPlacesAreTakenByOperationsAndNotByCallsAndAllComeBack) {
  TwoLanes two;
  TwoLanes others;
  for (std::uint64_t round = 1; round <= 3; ++round) {
    Calls calls[2];
    const int before = nccl.operations;
    start(two, calls[0], 0, 62 - 10);
    start(two, calls[0], 0, 10, round);  // of one unit
    start(two, calls[0], 0, 1);          // the 63rd
    start(two, calls[0], 0, 3, round + 10);
    start(two, calls[0], 0, 1);  // waits for a place
    EXPECT_TRUE(await([&] { return nccl.operations >= before + 66; })) << round;
    let_the_worker_look(others);
    EXPECT_EQ(nccl.operations, before + 66 + 2) << "all places are taken, round " << round;
    start(two, calls[1], 1, 52);
    start(two, calls[1], 1, 10, round);
    start(two, calls[1], 1, 1);
    start(two, calls[1], 1, 3, round + 10);
    start(two, calls[1], 1, 1);
    for (auto& rank : calls) {
      for (LaneCall& call : rank) {
        EXPECT_EQ(call.end.code(), Code::ok) << call.end.text();
        EXPECT_EQ(call.value->front(), 3.0F);
      }
    }
  }
}

TEST_F(LaneTest, ABatchIsIssuedWhenItsLastOperationHasCome) {
  TwoLanes two;
  TwoLanes others;
  Calls calls[2];
  const int groups = nccl.groups;
  const int operations = nccl.operations;
  for (Rank rank = 0; rank < 2; ++rank) {
    for (std::uint32_t following : {2u, 1u, 0u}) {
      if (following == 0) {
        let_the_worker_look(others);
        EXPECT_EQ(nccl.operations, operations + (rank == 0 ? 2 : 7));
      }
      LaneCall& call = calls[rank].emplace_back(rank, 2.0F);
      call.operation.batch = 9;
      call.operation.following = following;
      two.start(rank, call);
    }
  }
  for (auto& rank : calls) {
    for (LaneCall& call : rank) {
      EXPECT_EQ(call.end.code(), Code::ok) << call.end.text();
      EXPECT_EQ(call.value->front(), 4.0F);
    }
  }
  EXPECT_EQ(nccl.groups, groups + 2);
}

TEST_F(LaneTest, AFailureEndsOperationsInEveryStateOnceAndIsTheReasonOfLaterOnes) {
  TwoLanes two;
  Calls calls;
  std::atomic<int> told = 0;
  two.lanes[0]->on_failure([&](const Failure& why) { told += why.detail == "lost" ? 1 : 100; });
  const int before = nccl.operations;
  start(two, calls, 0, 64);  // on the stream
  EXPECT_TRUE(await([&] { return nccl.operations == before + 64; }));
  start(two, calls, 0, 2);  // in the queue
  LaneCall& half = calls.emplace_back(0, 1.0F);
  half.operation.batch = 5;
  half.operation.following = 1;  // its batch never comes
  two.start(0, half);
  two.lanes[0]->fail(failure(Code::aborted, "lost"));
  two.lanes[0]->fail(failure(Code::internal, "again"));
  for (LaneCall& call : calls) EXPECT_TRUE(call.end.has_ended()) << "when fail() has returned";
  LaneCall later(0, 1.0F);
  two.start(0, later);
  LaneCall message(Collective::send, 0, 1.0F);
  two.start(0, message);
  EXPECT_TRUE(message.end.was_message());
  EXPECT_FALSE(later.end.was_message());
  for (LaneCall* one : {&later, &message}) EXPECT_EQ(one->end.text(), "lost");
  std::vector<std::weak_ptr<void>> held;
  for (LaneCall& call : calls) {
    EXPECT_EQ(call.end.text(), "lost");
    held.push_back(call.drop());
  }
  for (const auto& one : held) EXPECT_TRUE(await([&] { return one.expired(); }));
  EXPECT_EQ(told, 1);
  two.lanes[0]->on_failure([&](const Failure& why) { told += why.detail == "lost" ? 1 : 100; });
  EXPECT_EQ(told, 2) << "it has failed already";
  EXPECT_TRUE(await([&] { return nccl.live_comms == 1; }));
}

TEST_F(LaneTest, WhatAFailedOperationUsesIsKeptUntilItsCommunicatorIsAborted) {
  TwoLanes two;
  LaneCall call(0, 1.0F);
  HeldStream stream(two.streams[0]);
  const int before = nccl.operations;
  two.start(0, call);
  EXPECT_TRUE(await([&] { return nccl.operations == before + 1; }));
  two.lanes[0]->fail(failure(Code::aborted, "lost"));
  EXPECT_EQ(call.end.code(), Code::aborted);
  const std::weak_ptr<void> held = call.drop();
  two.lanes[0]->close();  // of a lane that has failed: does nothing
  EXPECT_FALSE(Retirement::instance().await_free(test::cuda_device(0), Retirement::Clock::now()));
  EXPECT_FALSE(held.expired());
  stream.go();
  EXPECT_TRUE(await([&] { return held.expired(); }));
  EXPECT_TRUE(
      Retirement::instance().await_free(test::cuda_device(0), Retirement::Clock::now() + 60s));
  EXPECT_TRUE(Retirement::instance().await_free(test::cuda_device(1), Retirement::Clock::now()));
}

TEST_F(LaneTest, AnOperationThatNcclHasNotTakenYetIsGivenUp) {
  TwoLanes two;
  Calls calls;
  nccl.polls_in_progress = 1'000'000'000;
  const int before = nccl.operations;
  start(two, calls, 0, 3);
  EXPECT_TRUE(await([&] { return nccl.operations == before + 1; }));
  two.lanes[0]->fail(failure(Code::aborted, "lost"));
  for (LaneCall& call : calls) {
    EXPECT_EQ(call.end.text(), "lost");
    EXPECT_EQ(call.end.device_end, nullptr) << "it was never on the stream";
    const std::weak_ptr<void> held = call.drop();
    EXPECT_TRUE(await([&] { return held.expired(); }));
  }
  EXPECT_EQ(nccl.operations, before + 1);
  nccl.polls_in_progress = 0;
}

TEST_F(LaneTest, ALaneThatIsClosedIsFinalizedAndNotAborted) {
  const int aborts = nccl.aborts_begun;
  const int finalized = nccl.finalized;
  std::atomic<int> told = 0;
  {
    TwoLanes two;
    two.expect_works();
    two.lanes[0]->on_failure([&](const Failure&) { ++told; });
    two.lanes[0]->close();
    two.lanes[0]->fail(failure(Code::aborted, "too late"));
  }
  EXPECT_TRUE(await([&] { return nccl.live_comms == 0; }));
  EXPECT_EQ(nccl.aborts_begun, aborts);
  EXPECT_EQ(nccl.finalized, finalized + 2);
  EXPECT_EQ(told, 0);
}

TEST_F(LaneTest, TheDeadlineOfALaterOperationCountsAndThatOfAnEndedOneDoesNot) {
  struct Lanes {
    LaneCall brief[2] = {{0, 1.0F}, {1, 1.0F}};
    TwoLanes two;
  };
  std::unique_ptr<Lanes> lanes;
  for (int tries = 0; tries < 20 && !lanes; ++tries) {  // again if this machine stands still
    lanes = std::make_unique<Lanes>();
    LaneCall early[2] = {{0, 1.0F}, {1, 1.0F}};
    lanes->two.start(1, early[1]);
    lanes->two.start(0, early[0]);
    EXPECT_EQ(early[0].end.code(), Code::ok);
    EXPECT_EQ(early[1].end.code(), Code::ok);
    lanes->brief[0].within(300ms);
    for (Rank rank = 0; rank < 2; ++rank) lanes->two.start(rank, lanes->brief[rank]);
    if (lanes->brief[0].end.code() != Code::ok) lanes.reset();
  }
  ASSERT_TRUE(lanes);
  TwoLanes& two = lanes->two;
  LaneCall waits(0, 1.0F);
  two.start(0, waits);
  EXPECT_TRUE(
      await([&] { return Worker::Clock::now() > lanes->brief[0].operation.deadline + 20ms; }));
  EXPECT_FALSE(waits.end.has_ended()) << waits.end.text();
  LaneCall late(0, 1.0F);
  late.operation.sequence = 8;
  late.within(20ms);
  two.start(0, late);
  EXPECT_EQ(late.end.code(), Code::timed_out);
  EXPECT_TRUE(contains(late.end.text(), "all_reduce 8 of 1 float32 sum timed out after 0.02 s"))
      << late.end.text();
  EXPECT_EQ(waits.end.text(), late.end.text());
}

TEST_F(LaneTest, AnErrorInOneEntryOfABatchEndsAllOfIt) {
  TwoLanes two;
  Calls calls;
  LaneCall named(0, 1.0F);
  start(two, calls, 0, 1);  // waits for rank 1
  calls.front().operation.following = 0;
  LaneCall& first = calls.emplace_back(0, 1.0F);
  first.operation.batch = 3;
  first.operation.following = 1;
  two.start(0, first);
  named.operation.batch = 3;
  two.lanes[0]->start_call(
      [](Comm) {
        return Issued{Status::invalid_usage, "ncclDrill"};
      },
      "drill", named.operation, named.end);
  for (LaneCall& call : calls) EXPECT_EQ(call.end.text(), named.end.text());
  EXPECT_EQ(named.end.code(), Code::internal);
  EXPECT_TRUE(contains(named.end.text(), "drill failed: ncclDrill: ")) << named.end.text();
  EXPECT_TRUE(await([&] { return nccl.live_comms == 1; }));
}

TEST_F(LaneTest, AnOperationWhoseCopyHasNoMemoryEndsTheLaneAndItself) {
  TwoLanes two;
  Calls calls;
  start(two, calls, 0, 1);
  std::vector<float> values(3'000'000);
  Operation on_host{.collective = Collective::all_reduce, .output = tensor_of(values)};
  on_host.deadline = Worker::Clock::now() + 1h;
  test::SeenCompletion end;
  cuda.memory_left = 1;
  two.lanes[0]->start(on_host, end);
  EXPECT_EQ(end.code(), Code::unavailable);
  EXPECT_TRUE(contains(end.text(), "all_reduce 0 of 3000000 float32 sum failed: cannot allocate"))
      << end.text();
  EXPECT_EQ(calls.front().end.text(), end.text());
}

TEST_F(LaneTest, ACallTakesItsTurnAmongTheOperations) {
  TwoLanes two;
  Calls calls[2];
  start(two, calls[0], 0, 1);
  Operation operation;
  operation.deadline = Worker::Clock::now() + 1h;
  test::SeenCompletion end;
  std::atomic<Comm> seen = nullptr;
  two.lanes[0]->start_call(
      [&](Comm comm) {
        seen = comm;
        return Issued{};
      },
      "look", operation, end);
  EXPECT_TRUE(await([&] { return seen != nullptr; }));
  EXPECT_FALSE(end.has_ended()) << "the operation before it has not ended";
  start(two, calls[1], 1, 1);
  EXPECT_EQ(end.code(), Code::ok);
  EXPECT_EQ(end.device_end, nullptr);
  EXPECT_TRUE(calls[0].front().end.has_ended());
}

TEST_F(LaneTest, TwoLanesOfADeviceFailOneByOne) {
  TwoLanes first;
  TwoLanes second;
  LaneCall lost(0, 1.0F);
  first.start(0, lost);
  first.lanes[0]->fail(failure(Code::aborted, "lost"));
  EXPECT_EQ(lost.end.text(), "lost");
  second.expect_works();
}

}  // namespace
}  // namespace c10dd::collectives::nccl
