// SPDX-License-Identifier: Apache-2.0
// Streams: an operation begins after what the caller's stream had when it was issued, and a stream
// that waits for it goes on after its end.
#include <atomic>
#include <future>

#include "tests/unit/collectives/nccl/nccl_ranks.h"

namespace c10dd {
namespace {

using namespace std::chrono_literals;
using test::await;
using test::Groups;
using test::kAsync;
using test::on_device;
using test::open_groups;
using test::over_nccl;
using test::run_ranks;

// NOLINTNEXTLINE(readability-identifier-naming): a name of the CUDA driver, as the next
extern "C" int cuStreamCreate(void** stream, unsigned flags);
// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int cuStreamDestroy_v2(void* stream);

/// A stream of the test.
struct Stream {
  Stream() { cuStreamCreate(&handle, 0); }
  ~Stream() { cuStreamDestroy_v2(handle); }
  void put(std::function<void()> task) { stand_in::put_on_stream(handle, std::move(task)); }
  void await_all() {
    std::promise<void> done;
    put([&] { done.set_value(); });
    done.get_future().wait();
  }
  void* handle = nullptr;
};

class NcclStreams : public test::NcclTest {};

TEST_F(NcclStreams, AnOperationBeginsAfterWhatItsStreamHadWhenItWasIssued) {
  const Groups groups = open_groups(2, over_nccl());
  run_ranks(2, [&](Rank rank) {
    Stream stream;
    std::promise<void> go;
    std::vector<float> values(4, 0.0f);
    stream.put([&, opened = go.get_future().share()] {
      opened.wait();
      values.assign(4, 5.0f);
    });
    const WorkPtr work =
        groups[rank]->all_reduce(on_device(values, rank, stream.handle), ReduceOp::sum, kAsync);
    std::promise<void> later;
    stream.put([opened = later.get_future().share()] { opened.wait(); });  // not waited for
    EXPECT_EQ(work->status(), Work::Status::pending);
    go.set_value();
    work->wait_on_host();
    EXPECT_EQ(values[0], 10.0f);
    later.set_value();
    stream.await_all();
  });
}

TEST_F(NcclStreams, ASynchronousCallOrdersTheStreamAndDoesNotBlockTheHost) {
  const Groups groups = open_groups(2, over_nccl());
  Stream streams[2];
  std::vector<float> values[2] = {{1.0f}, {2.0f}};
  float seen[2] = {};
  const WorkPtr first = groups[0]->all_reduce(on_device(values[0], 0, streams[0].handle));
  EXPECT_EQ(first->status(), Work::Status::pending);  // rank 1 has not issued it
  streams[0].put([&] { seen[0] = values[0][0]; });
  const WorkPtr second = groups[1]->all_reduce(on_device(values[1], 1, streams[1].handle));
  streams[1].put([&] { seen[1] = values[1][0]; });
  for (Stream& stream : streams) stream.await_all();
  EXPECT_EQ(seen[0], 3.0f);
  EXPECT_EQ(seen[1], 3.0f);
  first->wait_on_host();
  second->wait_on_host();
}

TEST_F(NcclStreams, WaitOrdersAnyStream) {
  const Groups groups = open_groups(2, over_nccl());
  Stream other;
  std::vector<float> values[2] = {{1.0f}, {2.0f}};
  float seen = 0;
  const WorkPtr work = groups[0]->all_reduce(on_device(values[0], 0), ReduceOp::sum, kAsync);
  work->wait(other.handle);
  other.put([&] { seen = values[0][0]; });
  groups[1]->all_reduce(on_device(values[1], 1))->wait_on_host();
  other.await_all();
  EXPECT_EQ(seen, 3.0f);
  work->wait_on_host();
}

TEST_F(NcclStreams, AnEventIsRecordedOnlyWhenNcclHasFinishedTheCall) {
  const Groups groups = open_groups(2, over_nccl());
  nccl.polls_in_progress = 50;
  run_ranks(2, [&](Rank rank) {
    for (int round = 0; round < 20; ++round) {
      Stream stream;
      std::vector<float> values(1000, 1.0f);
      float seen = 0;
      const WorkPtr work = groups[rank]->all_reduce(on_device(values, rank, stream.handle));
      stream.put([&] { seen = values.back(); });
      stream.await_all();
      EXPECT_EQ(seen, 2.0f) << "the stream has overtaken the operation";
      work->wait_on_host();
    }
  });
}

TEST_F(NcclStreams, ManyThreadsAndKindsOfOperationsDoNotMixUp) {
  const Groups groups = open_groups(2, over_nccl());
  nccl.polls_in_progress = 3;
  run_ranks(2, [&](Rank rank) {
    std::jthread messages([&, rank] {
      // If both threads used one stream, it could wait for a message that the peer's stream has
      // behind a collective, which waits for this rank.
      Stream own;
      for (int i = 0; i < 100; ++i) {
        std::vector<std::int64_t> value = {i};
        if (rank == 0) {
          groups[0]->send(on_device(value, 0, own.handle), 1)->wait_on_host();
        } else {
          value = {-1};
          groups[1]->recv(on_device(value, 1, own.handle), 0)->wait_on_host();
          EXPECT_EQ(value[0], i);
        }
      }
    });
    std::vector<WorkPtr> works;
    std::vector<std::vector<std::int32_t>> values(100, std::vector<std::int32_t>(10));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i].assign(10, static_cast<std::int32_t>(i));
      const bool host = i % 3 == 0;
      const Tensor tensor = host ? tensor_of(values[i]) : on_device(values[i], rank);
      works.push_back(groups[rank]->all_reduce(tensor, ReduceOp::sum, {.async = i % 5 != 0}));
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      works[i]->wait_on_host();
      EXPECT_EQ(values[i][9], static_cast<std::int32_t>(2 * i));
    }
  });
}

TEST_F(NcclStreams, AMessageThatWaitsForItsPeerHoldsUpNoCollective) {
  const Groups groups = open_groups(2, over_nccl());
  std::vector<float> message(4, 7.0f);
  std::vector<float> got(4);
  const WorkPtr sent = groups[0]->isend(on_device(message, 0), 1);
  run_ranks(2, [&](Rank rank) {
    std::vector<float> values(4, 1.0f);
    groups[rank]->all_reduce(on_device(values, rank))->wait_on_host();
    EXPECT_EQ(values[0], 2.0f);
  });
  EXPECT_EQ(sent->status(), Work::Status::pending);
  groups[1]->recv(on_device(got, 1), 0)->wait_on_host();
  sent->wait_on_host();
  EXPECT_EQ(got, message);
}

TEST_F(NcclStreams, TensorsAreHeldUntilTheOperationHasEnded) {
  const Groups groups = open_groups(2, over_nccl());
  const auto values = std::make_shared<std::vector<float>>(4, 1.0f);
  std::weak_ptr<void> held = values;
  Tensor tensor = on_device(*values, 0);
  tensor.owner = values;
  const WorkPtr work = groups[0]->all_reduce(std::move(tensor), ReduceOp::sum, kAsync);
  const_cast<std::shared_ptr<std::vector<float>>&>(values).reset();
  EXPECT_FALSE(held.expired());
  std::vector<float> others(4, 1.0f);
  groups[1]->all_reduce(on_device(others, 1))->wait_on_host();
  work->wait_on_host();
  EXPECT_TRUE(await([&] { return held.expired(); }));
}

TEST_F(NcclStreams, ReduceOfBooleansOnTheHostChangesOnlyTheRoot) {
  const Groups groups = open_groups(2, over_nccl());
  run_ranks(2, [&](Rank rank) {
    std::vector<std::uint8_t> values = {7, 0};
    Tensor tensor = tensor_of(values);
    tensor.dtype = DType::boolean;
    groups[rank]->reduce(tensor, 0, ReduceOp::max)->wait_on_host();
    EXPECT_EQ(values, (std::vector<std::uint8_t>{static_cast<std::uint8_t>(rank == 0 ? 1 : 7), 0}));
  });
}

TEST_F(NcclStreams, OnlySomeOperationsAreOnTheStreamAtOnce) {
  const Groups groups = open_groups(2, over_nccl());
  std::vector<std::vector<float>> values[2] = {{200, {1.0f}}, {200, {1.0f}}};
  std::vector<WorkPtr> works;
  const auto issue_all = [&](Rank rank) {
    for (auto& one : values[rank]) {
      works.push_back(groups[rank]->all_reduce(on_device(one, rank), ReduceOp::sum, kAsync));
    }
  };
  const int before = nccl.operations;
  issue_all(0);
  EXPECT_TRUE(await([&] { return nccl.operations >= before + 64; }));
  std::vector<float> message(1);  // is issued after a worker that had more would have issued it
  const WorkPtr sent = groups[0]->isend(on_device(message, 0), 1);
  groups[1]->recv(on_device(message, 1), 0)->wait_on_host();
  sent->wait_on_host();
  EXPECT_EQ(nccl.operations, before + 64 + 2);
  issue_all(1);
  for (const WorkPtr& work : works) work->wait_on_host();
  for (Rank rank = 0; rank < 2; ++rank) {
    for (const auto& one : values[rank]) EXPECT_EQ(one[0], 2.0f);
  }
}

TEST_F(NcclStreams, FreeingATensorHoldsUpNoGroup) {
  const Groups groups = open_groups(2, over_nccl());
  std::vector<float> values(4);
  std::promise<void> go;
  cuda.frees_hang = true;
  Tensor own = groups[0]->allocate(DType::float32, 4, {Device::Kind::cuda, 0});
  Tensor other = on_device(values, 1);
  other.owner = {values.data(), [opened = go.get_future().share()](void*) { opened.wait(); }};
  const WorkPtr works[2] = {groups[0]->all_reduce(std::move(own), ReduceOp::sum, kAsync),
                            groups[1]->all_reduce(std::move(other), ReduceOp::sum, kAsync)};
  for (const WorkPtr& work : works) work->wait_on_host();
  const WorkPtr late =
      groups[0]->send(on_device(values, 0), 1, 0, {.timeout = 50ms, .async = true});
  EXPECT_TRUE(await([&] { return late->status() != Work::Status::pending; }));
  cuda.frees_hang = false;
  go.set_value();
  EXPECT_EQ(late->code(), Code::timed_out);
}

}  // namespace
}  // namespace c10dd
