// SPDX-License-Identifier: Apache-2.0
// How communicators of the backend nccl begin and end, each by itself, over its stand-ins: openings
// that hang or fail, retirements of which one hangs, and what is kept meanwhile.
#include "collectives/nccl/retirement.h"

#include <atomic>
#include <future>
#include <string>

#include "collectives/nccl/opening.h"
#include "tests/unit/collectives/nccl/nccl_parts.h"

namespace c10dd::collectives::nccl {
namespace {

using namespace std::chrono_literals;
using test::await;
using test::contains;
using test::cuda_device;
using test::HeldStream;
using test::nccl_library;
using Clock = Retirement::Clock;

class RetirementTest : public test::NcclTest {
 protected:
  /// A communicator of one rank that has connected, on device 0 or another.
  struct Alone {
    Comm comm = nullptr;
    void* stream = nullptr;
    std::shared_ptr<int> kept = std::make_shared<int>();
    Retired retired(Retirement& all, const CudaDevice& device) const {
      return {.library = &nccl_library(),
              .device = &device,
              .comm = comm,
              .stream = stream,
              .kept = kept,
              .reserved = all.reserve(device)};
    }
  };
  static Alone alone(int device) {
    Alone one;
    const CudaDevice::Current current(cuda_device(device));
    UniqueId id{};
    Config config;
    const Api& api = nccl_library().api();
    EXPECT_EQ(api.unique_id(&id), Status::success);
    EXPECT_EQ(api.init_rank_scalable(&one.comm, 1, 0, 1, &id, &config), Status::in_progress);
    Status status{};
    EXPECT_EQ(api.async_error(one.comm, &status), Status::success);
    EXPECT_EQ(status, Status::success);
    one.stream = *cuda_device(device).make_stream();
    return one;
  }
  static bool is_free(int device) {
    return Retirement::instance().await_free(cuda_device(device), Clock::now()).has_value();
  }

  Retirement& retirement = Retirement::instance();
};

TEST_F(RetirementTest, ADeviceIsFreeWhenItsLastReservationHasGone) {
  auto first = retirement.reserve(cuda_device(0));
  auto second = retirement.reserve(cuda_device(0));
  EXPECT_TRUE(is_free(1));
  const Result<void> late = retirement.await_free(cuda_device(0), Clock::now() + 10ms);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Code::timed_out);
  EXPECT_TRUE(contains(late.error().detail, "2 communicators of cuda:0 are still being aborted"))
      << late.error().detail;
  // It waits for the last one, and is told at once: its deadline is far away.
  auto free = std::async(std::launch::async, [&] {
    return retirement.await_free(cuda_device(0), Clock::now() + 1h).has_value();
  });
  first.reset();
  EXPECT_FALSE(is_free(0));
  EXPECT_NE(free.wait_for(0s), std::future_status::ready);
  second.reset();
  EXPECT_TRUE(free.get());
  EXPECT_TRUE(is_free(0));
}

TEST_F(RetirementTest, AFinishedCommunicatorIsDestroyedAfterTheSlowestCall) {
  nccl.polls_in_progress = 5;
  const int destroyed = nccl.destroyed;
  const int aborts = nccl.aborts_begun;
  Alone one = alone(0);
  std::atomic<int> freed = 0;
  one.kept = {new int, [&](const int* memory) {
                EXPECT_FALSE(is_free(0)) << "what it uses is freed first";
                delete memory;
                ++freed;
              }};
  retirement.finish(one.retired(retirement, cuda_device(0)));
  one.kept.reset();
  EXPECT_TRUE(await([&] { return is_free(0); }));
  EXPECT_EQ(nccl.destroyed, destroyed + 1);
  EXPECT_EQ(nccl.aborts_begun, aborts);
  EXPECT_EQ(freed, 1);
}

TEST_F(RetirementTest, ACommunicatorThatCannotBeFinalizedIsAborted) {
  const int destroyed = nccl.destroyed;
  const int aborts = nccl.aborts_ended;
  const Alone one = alone(0);
  nccl.issue_status = 3;  // of ncclCommFinalize, too
  retirement.finish(one.retired(retirement, cuda_device(0)));
  EXPECT_TRUE(await([&] { return is_free(0); }));
  EXPECT_EQ(nccl.destroyed, destroyed);
  EXPECT_EQ(nccl.aborts_ended, aborts + 1);
  EXPECT_EQ(one.kept.use_count(), 1);
}

TEST_F(RetirementTest, OneThatHangsHoldsUpNoOther) {
  const Alone hangs = alone(0);
  const Alone other = alone(1);
  const Alone third = alone(0);
  HeldStream stream(hangs.stream);
  const int aborts = nccl.aborts_ended;
  retirement.abort(hangs.retired(retirement, cuda_device(0)));
  retirement.abort(other.retired(retirement, cuda_device(1)));
  retirement.finish(third.retired(retirement, cuda_device(0)));
  EXPECT_TRUE(await([&] { return is_free(1) && third.kept.use_count() == 1; }));
  EXPECT_TRUE(await([&] { return nccl.aborts_ended == aborts + 2; }));
  EXPECT_EQ(other.kept.use_count(), 1);
  EXPECT_EQ(hangs.kept.use_count(), 2) << "its stream still uses the tensors";
  EXPECT_FALSE(is_free(0));
  stream.go();
  EXPECT_TRUE(await([&] { return is_free(0); }));
  EXPECT_EQ(hangs.kept.use_count(), 1);
}

TEST_F(RetirementTest, ATaskIsDestroyedBeforeItIsOver) {
  const auto kept = std::make_shared<int>();
  std::promise<void> go;
  std::atomic<int> ran = 0;
  retirement.run([&, kept, opened = go.get_future().share()] {
    opened.wait();
    ++ran;
  });
  EXPECT_EQ(kept.use_count(), 2);
  go.set_value();
  EXPECT_TRUE(await([&] { return kept.use_count() == 1; }));
  EXPECT_EQ(ran, 1);
}

class OpeningTest : public test::NcclTest {
 protected:
  /// Begins a communicator of a group of so many ranks, of which only this one comes.
  static std::function<Issued(Comm*)> first_of(int ranks, std::shared_ptr<int> kept = {}) {
    return [ranks, kept](Comm* comm) -> Issued {
      UniqueId id{};
      Config config;
      const Api& api = nccl_library().api();
      EXPECT_EQ(api.unique_id(&id), Status::success);
      return {api.init_rank_scalable(comm, ranks, 0, 1, &id, &config), "ncclCommInitRankScalable"};
    };
  }
  static Result<Comm> open(std::function<Issued(Comm*)> begin, Duration limit = 1h) {
    return open_comm(nccl_library(), cuda_device(0), std::move(begin), "pairs",
                     Worker::Clock::now() + limit);
  }
};

TEST_F(OpeningTest, OneThatIsNeverConnectedHoldsUpNoOther) {
  const auto kept = std::make_shared<int>();
  auto alone = std::async(std::launch::async, [&] { return open(first_of(2, kept), 50ms); });
  const Result<Comm> other = open(first_of(1));
  ASSERT_TRUE(other);
  const Result<Comm> late = alone.get();
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Code::timed_out);
  EXPECT_TRUE(contains(late.error().detail, "process group \"pairs\" was not connected within "))
      << late.error().detail;
  // It is aborted, with what it uses, before the device is free.
  EXPECT_TRUE(await([&] { return nccl.live_comms == 1; }));
  EXPECT_TRUE(await([&] { return kept.use_count() == 1; }));
  EXPECT_TRUE(Retirement::instance().await_free(cuda_device(0), Clock::now() + 60s));
  EXPECT_EQ(nccl_library().api().abort(*other), Status::success);
}

TEST_F(OpeningTest, TheDeviceOfOneThatIsGivenUpIsNotFreeBeforeItIsAborted) {
  const int aborts = nccl.aborts_begun;
  nccl.aborts_hang = true;
  const Result<Comm> late = open(first_of(2), 50ms);
  ASSERT_FALSE(late);
  EXPECT_TRUE(await([&] { return nccl.aborts_begun == aborts + 1; }));
  Retirement& retirement = Retirement::instance();
  EXPECT_FALSE(retirement.await_free(cuda_device(0), Clock::now()));
  nccl.aborts_hang = false;
  EXPECT_TRUE(retirement.await_free(cuda_device(0), Clock::now() + 60s));
}

TEST_F(OpeningTest, ACallThatFailsIsNamedAndLeavesNothing) {
  const auto kept = std::make_shared<int>();
  const int aborts = nccl.aborts_begun;
  const Result<Comm> refused = open([kept](Comm*) {
    return Issued{Status::system_error, "ncclDrill"};
  });
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::unavailable);
  EXPECT_TRUE(contains(refused.error().detail, "\"pairs\" was not connected: ncclDrill: "))
      << refused.error().detail;
  EXPECT_EQ(nccl.aborts_begun, aborts) << "there is no communicator";
  EXPECT_TRUE(await([&] { return kept.use_count() == 1; }));
}

TEST_F(OpeningTest, AFailureWhileItConnectsAbortsTheCommunicator) {
  nccl.failing_rank = 1;
  const int aborts = nccl.aborts_begun;
  const auto refused = [&](Status status) {
    nccl.async_status = static_cast<int>(status);
    const std::vector<Comm> comms = test::make_comms(2);
    const Result<Comm> result = open([&](Comm* comm) {
      *comm = comms[0];
      return Issued{Status::success, "ncclCommSplit"};
    });
    EXPECT_EQ(nccl_library().api().abort(comms[1]), Status::success);
    return result ? failure(Code::ok, "") : result.error();
  };
  EXPECT_EQ(refused(Status::remote_error).code, Code::unavailable);
  EXPECT_EQ(refused(Status::system_error).code, Code::unavailable);
  const Failure other = refused(Status::invalid_usage);
  EXPECT_EQ(other.code, Code::internal);
  EXPECT_TRUE(contains(other.detail, "ncclCommGetAsyncError: ")) << other.detail;
  EXPECT_TRUE(await([&] { return nccl.aborts_begun == aborts + 6; }));
  EXPECT_TRUE(Retirement::instance().await_free(cuda_device(0), Clock::now() + 60s));
}

}  // namespace
}  // namespace c10dd::collectives::nccl
