// SPDX-License-Identifier: Apache-2.0
// Several operations that are issued together, on every backend.
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "client/errors.h"
#include "collectives/process_group.h"
#include "tests/unit/collectives/thread_ranks.h"

namespace c10dd {
namespace {

using namespace std::chrono_literals;
using test::open_groups;
using test::run_ranks;

class Coalesce : public ::testing::TestWithParam<std::string> {
 protected:
  GroupOptions options() const { return {.backend = GetParam(), .timeout = 60s}; }
};

TEST_P(Coalesce, RunsCollectivesInTheOrderOfTheList) {
  const auto groups = open_groups(3, options());
  run_ranks(3, [&](Rank rank) {
    std::vector<float> values = {1.0f + static_cast<float>(rank)};
    std::vector<float> nothing;
    std::vector<std::int64_t> gathered(3);
    std::vector<std::int64_t> own = {rank};
    const WorkPtr work = groups[rank]->coalesce({
        {.collective = Collective::all_reduce, .output = tensor_of(values)},
        {.collective = Collective::all_reduce, .output = tensor_of(nothing)},
        {.collective = Collective::all_reduce,
         .output = tensor_of(values),
         .reduce = ReduceOp::max},
        {.collective = Collective::all_gather,
         .output = tensor_of(gathered),
         .input = tensor_of(own)},
    });
    EXPECT_EQ(work->status(), Work::Status::done);
    EXPECT_EQ(values[0], 6.0f);
    EXPECT_EQ(gathered, (std::vector<std::int64_t>{0, 1, 2}));
  });
}

TEST_P(Coalesce, SendsAndReceivesOfAllToAllPeersEndTogether) {
  constexpr Rank kSize = 4;
  constexpr std::size_t kCount = 100'003;  // too many to travel without a recv
  const auto groups = open_groups(kSize, options());
  run_ranks(kSize, [&](Rank rank) {
    std::vector<std::int32_t> own(kCount, static_cast<std::int32_t>(rank));
    std::vector<std::vector<std::int32_t>> theirs(kSize, std::vector<std::int32_t>(kCount));
    std::vector<Operation> operations;
    for (Rank peer = 0; peer < kSize; ++peer) {
      if (peer == rank) continue;
      operations.push_back({.collective = Collective::send, .input = tensor_of(own), .peer = peer});
      operations.push_back(
          {.collective = Collective::recv, .output = tensor_of(theirs[peer]), .peer = peer});
    }
    const WorkPtr work = groups[rank]->coalesce(std::move(operations), {.async = true});
    std::promise<Work::Status> ended;
    work->on_end([&](Work& all) { ended.set_value(all.status()); });
    work->wait(60s);
    EXPECT_EQ(ended.get_future().get(), Work::Status::done);
    EXPECT_TRUE(work->test());
    EXPECT_GT(work->duration(), 0ns);
    for (Rank peer = 0; peer < kSize; ++peer) {
      if (peer != rank) {
        EXPECT_EQ(theirs[peer].back(), static_cast<std::int32_t>(peer));
      }
    }
  });
}

TEST_P(Coalesce, IssuesNothingIfOneOperationIsRefused) {
  const auto groups = open_groups(2, options());
  std::vector<float> values(4, 2.0f);
  const Operation good = {.collective = Collective::all_reduce, .output = tensor_of(values)};
  Operation bad = good;
  bad.reduce = ReduceOp::band;
  EXPECT_THROW(groups[0]->coalesce({good, bad}), InvalidArgument);
  EXPECT_THROW(groups[0]->coalesce({}), InvalidArgument);
  run_ranks(2, [&](Rank rank) {
    const WorkPtr next = groups[rank]->barrier();
    EXPECT_EQ(next->sequence(), 0u);
  });
}

TEST_P(Coalesce, FailsWithThePartThatHasFailed) {
  const auto groups = open_groups(2, options());
  std::vector<float> values(4);
  const WorkPtr work =
      groups[0]->coalesce({{.collective = Collective::barrier},
                           {.collective = Collective::all_reduce, .output = tensor_of(values)}},
                          {.timeout = 60s, .async = true});
  EXPECT_EQ(work->status(), Work::Status::pending);
  EXPECT_THROW(work->wait(1ms), TimedOut);
  work->abort("the trainer gave up");
  EXPECT_THROW(work->wait(), Aborted);
  EXPECT_EQ(work->code(), Code::aborted);
  EXPECT_NE(work->error().find("the trainer gave up"), std::string::npos) << work->error();
  EXPECT_NE(work->status(), Work::Status::done);
}

INSTANTIATE_TEST_SUITE_P(Backends, Coalesce, ::testing::ValuesIn(test::backends()),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace c10dd
