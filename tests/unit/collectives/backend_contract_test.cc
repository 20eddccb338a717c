// SPDX-License-Identifier: Apache-2.0
// One suite over every backend that runs on a cpu, with ranks as threads: operations in a row and
// in a queue, barriers, and how groups open and end. The values of operations are cells of
// c10dd-matrix (tests/matrix). C10DD_CONTRACT_LONG=1 repeats more often.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "client/errors.h"
#include "collectives/process_group.h"
#include "tests/unit/collectives/thread_ranks.h"

namespace c10dd {
namespace {

using namespace std::chrono_literals;
using test::Groups;
using test::open_groups;
using test::run_ranks;

class BackendContract : public ::testing::TestWithParam<std::tuple<std::string, Rank>> {
 protected:
  std::string backend() const { return std::get<0>(GetParam()); }
  Rank size() const { return std::get<1>(GetParam()); }
  GroupOptions options() const { return {.backend = backend(), .timeout = 60s}; }

  static bool is_long() { return std::getenv("C10DD_CONTRACT_LONG") != nullptr; }
};

TEST_P(BackendContract, ReducesAndScattersManyTimesInARow) {
  const Groups groups = open_groups(size(), options());
  const std::int32_t rounds = is_long() ? 1'000 : 200;
  run_ranks(size(), [&](Rank rank) {
    std::vector<std::int32_t> input(7 * size());
    std::vector<std::int32_t> output(7);
    for (std::int32_t round = 0; round < rounds; ++round) {
      for (std::size_t i = 0; i < input.size(); ++i) {
        input[i] = round * static_cast<std::int32_t>(i + rank);
      }
      groups[rank]->reduce_scatter_single(tensor_of(output), tensor_of(input))->wait();
      for (std::size_t i = 0; i < output.size(); ++i) {
        const auto n = static_cast<std::int32_t>(size());
        const auto at = static_cast<std::int32_t>(i + 7 * rank);
        ASSERT_EQ(output[i], round * (n * at + n * (n - 1) / 2)) << round;
      }
    }
  });
}

TEST_P(BackendContract, HoldsNobodyBackLongerThanTheLastOfABarrier) {
  const Groups groups = open_groups(size(), options());
  std::atomic<Rank> arrived = 0;
  for (Rank round = 1; round <= 20; ++round) {
    run_ranks(size(), [&](Rank rank) {
      ++arrived;
      groups[rank]->barrier()->wait();
      EXPECT_EQ(arrived.load(), round * size());
    });
  }
}

TEST_P(BackendContract, RunsQueuedWorkInIssueOrder) {
  const Groups groups = open_groups(size(), options());
  run_ranks(size(), [&](Rank rank) {
    std::vector<std::int64_t> value = {1};
    std::vector<WorkPtr> works;
    for (int i = 0; i < 20; ++i)
      works.push_back(groups[rank]->all_reduce(tensor_of(value), ReduceOp::sum, {.async = true}));
    for (std::size_t i = 0; i < works.size(); ++i) {
      works[i]->wait();
      EXPECT_EQ(works[i]->status(), Work::Status::done);
      EXPECT_EQ(works[i]->sequence(), i);
    }
    const auto power = static_cast<std::int64_t>(std::pow(size(), 20));
    EXPECT_EQ(value[0], power);
  });
}

TEST_P(BackendContract, OpensAndClosesManyGenerations) {
  for (int generation = 0; generation < 5; ++generation) {
    const Groups groups = open_groups(size(), options());
    run_ranks(size(), [&](Rank rank) {
      std::vector<std::int32_t> value = {1};
      groups[rank]->all_reduce(tensor_of(value))->wait();
      EXPECT_EQ(value[0], static_cast<std::int32_t>(size()));
      groups[rank]->barrier()->wait();
      groups[rank]->shutdown();
      EXPECT_THROW(groups[rank]->barrier(), Error);
      const WorkPtr late = groups[rank]->barrier({.async = true});
      EXPECT_EQ(late->status(), Work::Status::abandoned);
      EXPECT_EQ(late->code(), Code::closed);
    });
  }
}

TEST_P(BackendContract, ShutdownRunsWhatWasIssued) {
  const Groups groups = open_groups(size(), options());
  run_ranks(size(), [&](Rank rank) {
    std::vector<std::vector<float>> values(5, std::vector<float>(1000, 1.0f));
    std::vector<WorkPtr> works;
    for (auto& one : values)
      works.push_back(groups[rank]->all_reduce(tensor_of(one), ReduceOp::sum, {.async = true}));
    groups[rank]->shutdown();
    for (const WorkPtr& work : works) EXPECT_EQ(work->status(), Work::Status::done);
    for (const auto& one : values) EXPECT_EQ(one.back(), static_cast<float>(size()));
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, BackendContract,
                         ::testing::Combine(::testing::ValuesIn(test::backends()),
                                            ::testing::Values(1, 2, 3, 4)),
                         [](const auto& instance) {
                           return std::get<0>(instance.param) +
                                  std::to_string(std::get<1>(instance.param));
                         });

}  // namespace
}  // namespace c10dd
