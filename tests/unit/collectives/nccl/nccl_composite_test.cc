// SPDX-License-Identifier: Apache-2.0
// A backend for each kind of device: loopback for the cpu, and nccl over its stand-in.
#include <set>

#include "collectives/backend_names.h"
#include "collectives/measure.h"
#include "tests/unit/collectives/nccl/nccl_ranks.h"

namespace c10dd {
namespace {

using namespace std::chrono_literals;
using test::await;
using test::contains;
using test::error_of;
using test::Groups;
using test::kAsync;
using test::on_device;
using test::open_groups;
using test::run_ranks;

GroupOptions composite() { return {.backend = "cpu:loopback,cuda:nccl", .timeout = 60s}; }

class Composite : public test::NcclTest {};

TEST_F(Composite, AnOperationRunsOnTheBackendOfItsTensors) {
  const Groups groups = open_groups(2, composite());
  EXPECT_EQ(groups[1]->describe(),
            "cpu: threads of one process; cuda: NCCL 2.28.9 on cuda:1 (stand-in, 0000:01:00.0)");
  EXPECT_EQ(groups[0]->backend(), "cpu:loopback,cuda:nccl");
  const int operations = nccl.operations;
  run_ranks(2, [&](Rank rank) {
    std::vector<std::int16_t> bits = {static_cast<std::int16_t>(1 << rank)};
    groups[rank]->all_reduce(tensor_of(bits), ReduceOp::bxor);  // which NCCL has not
    EXPECT_EQ(bits[0], 3);
    groups[rank]->barrier();
  });
  EXPECT_EQ(nccl.operations, operations);
  run_ranks(2, [&](Rank rank) {
    std::vector<float> values(4, 1.0f);
    groups[rank]->all_reduce(on_device(values, rank))->wait_on_host();
    EXPECT_EQ(values[0], 2.0f);
    std::vector<std::int16_t> bits(4);
    EXPECT_TRUE(
        contains(error_of([&] { groups[rank]->all_reduce(on_device(bits, rank), ReduceOp::bxor); }),
                 "does not support bxor of int16"));
    // Tags are only for messages in memory of the cpu.
    std::vector<float> message(3, 5.0f);
    if (rank == 0) {
      groups[0]->send(tensor_of(message), 1, 9);
      EXPECT_TRUE(contains(error_of([&] { groups[0]->send(on_device(message, 0), 1, 9); }),
                           "does not support tags"));
    } else {
      groups[1]->recv(tensor_of(message), kAnyRank, 9);
    }
  });
  EXPECT_EQ(nccl.operations, operations + 2);
  const Device own{Device::Kind::cuda, 1};
  EXPECT_EQ(groups[1]->allocate(DType::int8, 3, own).device, own);
}

TEST_F(Composite, AsynchronousOperationsOfBothKindsKeepTheirOrderAndEnd) {
  const Groups groups = open_groups(2, composite());
  run_ranks(2, [&](Rank rank) {
    std::vector<std::vector<std::int32_t>> values(60, std::vector<std::int32_t>(4));
    std::vector<WorkPtr> works;
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i].assign(4, static_cast<std::int32_t>(i));
      const Tensor tensor = i % 2 == 0 ? tensor_of(values[i]) : on_device(values[i], rank);
      works.push_back(groups[rank]->all_reduce(tensor, ReduceOp::sum, kAsync));
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      works[i]->wait_on_host();
      EXPECT_EQ(works[i]->sequence(), i);
      EXPECT_EQ(values[i][3], static_cast<std::int32_t>(2 * i));
    }
  });
}

TEST_F(Composite, TheFailureOfOneBackendEndsTheWorkOfTheOtherWithTheSameReason) {
  const Groups groups = open_groups(2, composite());
  std::vector<float> values(4);
  std::vector<float> message(4);
  const WorkPtr received = groups[0]->irecv(tensor_of(message), 1, 3);
  const WorkPtr reduced = groups[0]->all_reduce(on_device(values, 0), ReduceOp::sum, kAsync);
  nccl.failing_rank = 1;
  EXPECT_THROW(reduced->wait_on_host(), Unavailable);
  EXPECT_THROW(received->wait(), Unavailable);
  EXPECT_EQ(received->error(), reduced->error());
  EXPECT_TRUE(contains(received->error(), "a peer was lost")) << received->error();
}

TEST_F(Composite, AMessageOfTheWrongSizeHurtsNothing) {
  const Groups groups = open_groups(2, composite());
  std::vector<float> large(9);
  std::vector<float> small(2);
  const WorkPtr sent = groups[0]->isend(tensor_of(large), 1);
  const WorkPtr got = groups[1]->irecv(tensor_of(small), 0);
  EXPECT_THROW(sent->wait(), Error);
  EXPECT_THROW(got->wait(), Error);
  run_ranks(2, [&](Rank rank) {
    std::vector<float> ones(4, 1.0f);
    groups[rank]->all_reduce(on_device(ones, rank))->wait_on_host();
    EXPECT_EQ(ones[0], 2.0f);
  });
}

TEST_F(Composite, SplitsWithRanksThatAreInNoPart) {
  const Groups world = open_groups(3, composite());
  Groups parts(3);
  run_ranks(3, [&](Rank rank) { parts[rank] = world[rank]->split(rank == 1 ? -1 : 0); });
  EXPECT_EQ(parts[1], nullptr);
  run_ranks(3, [&](Rank rank) {
    if (!parts[rank]) return;
    std::vector<float> host(4, 1.0f);
    std::vector<float> device(4, 1.0f);
    parts[rank]->all_reduce(tensor_of(host));
    parts[rank]->all_reduce(on_device(device, rank))->wait_on_host();
    EXPECT_EQ(host[0] + device[0], 4.0f);
  });
  run_ranks(3, [&](Rank rank) { world[rank]->barrier(); });
}

TEST_F(Composite, RanksMustNameTheSameBackends) {
  std::vector<std::string> errors(2);
  const auto point = std::make_shared<test::ThreadExchange>(2);
  run_ranks(2, [&](Rank rank) {
    GroupOptions options = composite();
    if (rank == 1) options.backend = "cpu:loopback,cuda:loopback";
    errors[rank] = error_of([&] {
      ProcessGroup::open(std::make_shared<test::ThreadBootstrap>(point, rank),
                         {.rank = rank, .size = 2}, options);
    });
  });
  for (const std::string& error : errors) {
    EXPECT_EQ(error,
              "process group \"world\": rank 0 uses backend \"cpu:loopback,cuda:nccl\", but rank 1 "
              "uses \"cpu:loopback,cuda:loopback\"; all ranks must use the same");
  }
}

TEST_F(Composite, ABackendThatCannotBeOpenedFailsTheGroupOnAllRanks) {
  cuda.devices = 8;
  GroupOptions options = composite();
  options.device = 9;
  EXPECT_TRUE(contains(error_of([&] { open_groups(2, options); }), "GroupOptions::device is 9"));
}

/// Remembers the labels of the series.
struct Labels final : CollectiveRecorder {
  struct Nothing final : CollectiveSeries {
    void record(Duration, Duration, std::uint64_t, std::uint64_t, bool) noexcept override {}
    void add_in_flight(std::int64_t) noexcept override {}
  };
  std::shared_ptr<CollectiveSeries> series(std::string_view, std::string_view collective,
                                           std::string_view backend) override {
    const std::lock_guard lock(mutex);
    labels.insert(std::string(collective) + " " + std::string(backend));
    return std::make_shared<Nothing>();
  }
  std::mutex mutex;
  std::set<std::string> labels;
};

TEST_F(Composite, SamplesHaveTheNameOfTheBackendThatRan) {
  const auto labels = std::make_shared<Labels>();
  GroupOptions options = composite();
  options.hooks = {measure_into(labels, options.backend)};
  const Groups groups = open_groups(1, options);
  std::vector<float> values(4);
  groups[0]->all_reduce(tensor_of(values));
  groups[0]->all_reduce(on_device(values, 0))->wait_on_host();
  groups[0]->barrier();
  EXPECT_EQ(labels->labels,
            (std::set<std::string>{"all_reduce loopback", "all_reduce nccl", "barrier loopback"}));
}

TEST(BackendNames, AreOneForEachKindOfDevice) {
  using collectives::exchanges_of;
  using collectives::is_composite;
  using collectives::name_for;
  using collectives::split_names;
  EXPECT_FALSE(is_composite("gloo"));
  EXPECT_EQ(name_for("gloo", Device::Kind::cuda), "gloo");
  EXPECT_EQ(name_for("cpu:gloo,cuda:nccl", Device::Kind::cuda), "nccl");
  EXPECT_EQ(name_for("cuda:nccl", Device::Kind::cpu), "nccl");
  EXPECT_EQ(exchanges_of("gloo"), 1u);
  EXPECT_EQ(exchanges_of("cpu:gloo,cuda:nccl"), 3u);
  const auto error = [](const char* names) { return split_names(names).error().detail; };
  EXPECT_EQ(error("tpu:gloo"),
            "invalid backend \"tpu:gloo\": unknown device \"tpu\" (must be cpu or cuda); "
            "use one name such as gloo, or a list such as cpu:gloo,cuda:nccl");
  EXPECT_TRUE(contains(error("cpu:gloo,cpu:mpi"), "device cpu is listed twice"));
  EXPECT_TRUE(contains(error("cpu:,cuda:nccl"), "\"cpu:\" does not name a backend"));
  EXPECT_TRUE(contains(error("cpu:gloo,"), "unknown device \"\""));
  EXPECT_TRUE(contains(error("cpu:cuda:nccl"), "does not name a backend"));
}

}  // namespace
}  // namespace c10dd
