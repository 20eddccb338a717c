// SPDX-License-Identifier: Apache-2.0
// Tensors of a device over Gloo, which uses only memory of the host.
#include <future>

#include "tests/unit/collectives/nccl/nccl_ranks.h"

namespace c10dd {
namespace {

using namespace std::chrono_literals;
using test::contains;
using test::error_of;
using test::Groups;
using test::on_device;
using test::open_groups;
using test::run_ranks;

class Staging : public test::NcclTest {
 protected:
  static GroupOptions options() { return {.backend = "gloo", .timeout = 60s}; }
};

TEST_F(Staging, OperationsRunOnCopiesAndTheirResultsComeBack) {
  const Groups groups = open_groups(3, options());
  run_ranks(3, [&](Rank rank) {
    ProcessGroup& group = *groups[rank];
    const auto own = static_cast<std::int16_t>(rank);
    std::vector<std::int16_t> bits(3'000'000, static_cast<std::int16_t>(1 << rank));
    group.all_reduce(on_device(bits, rank), ReduceOp::bor);  // several pieces of a copy
    EXPECT_EQ(bits, std::vector<std::int16_t>(bits.size(), 7));
    std::vector<std::int16_t> mine(2, own);
    std::vector<std::int16_t> all(6);
    group.all_gather_single(on_device(all, rank), on_device(mine, rank));
    EXPECT_EQ(all, (std::vector<std::int16_t>{0, 0, 1, 1, 2, 2}));
    std::vector<std::int16_t> sum(2);
    group.reduce_scatter_single(on_device(sum, rank), on_device(all, rank));
    EXPECT_EQ(sum, std::vector<std::int16_t>(2, static_cast<std::int16_t>(3 * own)));
    std::vector<std::int16_t> first(2);
    std::vector<std::int16_t> second(2);
    std::vector<std::int16_t> third(2);
    group.all_gather({on_device(first, rank), on_device(second, rank), on_device(third, rank)},
                     on_device(mine, rank));
    EXPECT_EQ(third, std::vector<std::int16_t>(2, 2));
    group.broadcast(on_device(mine, rank), 1);
    EXPECT_EQ(mine, std::vector<std::int16_t>(2, 1));
    group.all_reduce(tensor_of(mine));  // on the host, without copies
    EXPECT_EQ(mine, std::vector<std::int16_t>(2, 3));
  });
}

TEST_F(Staging, TheStreamOfATensorIsWaitedFor) {
  const Groups groups = open_groups(2, options());
  run_ranks(2, [&](Rank rank) {
    std::vector<float> values(4);
    const Tensor allocated = on_device(values, rank);
    std::promise<void> go;
    stand_in::put_on_default_stream(static_cast<int>(rank), [&, opened = go.get_future().share()] {
      opened.wait();
      values.assign(4, 2.0f);
    });
    const WorkPtr work = groups[rank]->all_reduce(allocated, ReduceOp::sum, {.async = true});
    go.set_value();
    work->wait();
    EXPECT_EQ(values[3], 4.0f);
  });
}

TEST_F(Staging, MessagesHaveTagsAndMayBeShorter) {
  const Groups groups = open_groups(2, options());
  run_ranks(2, [&](Rank rank) {
    std::vector<float> values(5, 9.0f);
    if (rank == 0) {
      groups[0]->send(on_device(values, 0).slice(0, 2), 1, 7);
    } else {
      values.assign(5, 1.0f);
      const WorkPtr got = groups[1]->recv(on_device(values, 1), kAnyRank, kAnyTag);
      EXPECT_EQ(got->received().count, 2u);
      EXPECT_EQ(got->received().tag, 7u);
      EXPECT_EQ(values, (std::vector<float>{9, 9, 1, 1, 1}));
    }
  });
}

TEST_F(Staging, FieldsThatAnOperationDoesNotUseAreIgnored) {
  for (const char* backend : {"gloo", "nccl"}) {
    const Groups groups = open_groups(2, {.backend = backend, .timeout = 60s});
    run_ranks(2, [&](Rank rank) {
      for (const bool on_host : {true, false}) {
        std::vector<float> sent(4, 5.0f);
        std::vector<float> other(4, 1.0f);
        const auto place = [&](std::vector<float>& values) {
          return on_host ? tensor_of(values) : on_device(values, rank);
        };
        Operation message{.output = place(other), .input = place(sent), .peer = 1 - rank};
        message.collective = rank == 0 ? Collective::send : Collective::recv;
        if (rank == 1) std::swap(message.output, message.input);
        groups[rank]->issue(std::move(message))->wait_on_host();
        EXPECT_EQ(other, std::vector<float>(4, 1.0f));
        Tensor freed{.data = nullptr, .count = 1 << 20};
        groups[rank]->issue({.collective = Collective::barrier, .input = freed})->wait_on_host();
      }
    });
  }
}

TEST_F(Staging, ATensorThatCannotBeCopiedFailsTheOperation) {
  const Groups groups = open_groups(2, options());
  std::vector<float> values(4);
  const std::string error = error_of([&] { groups[0]->all_reduce(on_device(values, 12)); });
  EXPECT_TRUE(contains(error, "a tensor is on cuda:12, but this process has 8 GPUs")) << error;
  EXPECT_THROW(groups[1]->barrier(), Error);
}

TEST_F(Staging, AnAbortEndsAStagedOperation) {
  const Groups groups = open_groups(2, options());
  std::vector<float> values(4);
  const WorkPtr work = groups[0]->all_reduce(on_device(values, 0), ReduceOp::sum, {.async = true});
  groups[0]->abort("the trainer gave up");
  EXPECT_THROW(work->wait(), Aborted);
}

}  // namespace
}  // namespace c10dd
