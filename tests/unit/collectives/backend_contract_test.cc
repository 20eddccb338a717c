// SPDX-License-Identifier: Apache-2.0
// One suite over every backend that runs on a cpu, with ranks as threads. Results are compared
// with a serial computation; inputs are small whole numbers, so floats are exact in any order.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "client/errors.h"
#include "collectives/process_group.h"
#include "tests/unit/collectives/thread_ranks.h"

namespace c10dd {
namespace {

using namespace std::chrono_literals;
using testing::open_groups;
using testing::run_ranks;
using Groups = std::vector<std::shared_ptr<ProcessGroup>>;

constexpr DType kDTypes[] = {DType::float32, DType::float64, DType::int8,
                             DType::uint8,   DType::int32,   DType::int64};
constexpr ReduceOp kReduceOps[] = {ReduceOp::sum, ReduceOp::avg, ReduceOp::product, ReduceOp::min,
                                   ReduceOp::max};

template <class F>
void with_type(DType dtype, F f) {
  switch (dtype) {
    case DType::float32:
      return f(float{});
    case DType::float64:
      return f(double{});
    case DType::int8:
      return f(std::int8_t{});
    case DType::uint8:
      return f(std::uint8_t{});
    case DType::int32:
      return f(std::int32_t{});
    case DType::int64:
      return f(std::int64_t{});
  }
}

template <class T>
std::vector<T> input_of(Rank rank, std::size_t count) {
  std::vector<T> values(count);
  const int shift = std::is_unsigned_v<T> ? 0 : 2;
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<T>(static_cast<int>((i * 7 + rank * 3 + i / 5) % 5) - shift);
  }
  return values;
}

template <class T>
T expected_at(std::size_t i, Rank size, ReduceOp op, const std::vector<std::vector<T>>& inputs) {
  double result = inputs[0][i];
  for (Rank rank = 1; rank < size; ++rank) {
    const double value = inputs[rank][i];
    if (op == ReduceOp::sum || op == ReduceOp::avg) result += value;
    if (op == ReduceOp::product) result *= value;
    if (op == ReduceOp::min) result = std::min(result, value);
    if (op == ReduceOp::max) result = std::max(result, value);
  }
  if (op != ReduceOp::avg) {
    // Products of up to four such numbers do not fit into 8 bits: they wrap.
    return std::is_integral_v<T> ? static_cast<T>(static_cast<std::int64_t>(result))
                                 : static_cast<T>(result);
  }
  if (std::is_integral_v<T>) return static_cast<T>(std::trunc(result / size));
  return static_cast<T>(result) / static_cast<T>(size);
}

class BackendContract : public ::testing::TestWithParam<std::tuple<std::string, Rank>> {
 protected:
  std::string backend() const { return std::get<0>(GetParam()); }
  Rank size() const { return std::get<1>(GetParam()); }
  GroupOptions options() const { return {.backend = backend(), .timeout = 60s}; }

  // The last count is larger than two of Gloo's 1 MiB segments per rank.
  std::vector<std::size_t> counts(DType dtype) const {
#ifdef __SANITIZE_THREAD__
    if (dtype != DType::float32) return {0, 1, 1021};  // minutes otherwise
#endif
    return {0, 1, 1021, ((2 * size() + 1) << 20) / size_of(dtype) + 3};
  }
};

TEST_P(BackendContract, ReducesEveryTypeByEveryOperation) {
  const Groups groups = open_groups(size(), options());
  for (const DType dtype : kDTypes) {
    for (const std::size_t count : counts(dtype)) {
      with_type(dtype, [&](auto type) {
        using T = decltype(type);
        std::vector<std::vector<T>> inputs;
        for (Rank rank = 0; rank < size(); ++rank) inputs.push_back(input_of<T>(rank, count));
        for (const ReduceOp op : kReduceOps) {
          std::vector<T> expected(count);
          for (std::size_t i = 0; i < count; ++i) expected[i] = expected_at(i, size(), op, inputs);
          run_ranks(size(), [&](Rank rank) {
            std::vector<T> values = inputs[rank];
            groups[rank]->all_reduce(tensor_of(values), op)->wait();
            EXPECT_TRUE(values == expected)
                << name_of(dtype) << " " << name_of(op) << " of " << count << " on rank " << rank;
          });
        }
      });
    }
  }
}

TEST_P(BackendContract, BroadcastsEveryTypeFromEveryRank) {
  const Groups groups = open_groups(size(), options());
  for (const DType dtype : kDTypes) {
    for (const std::size_t count : counts(dtype)) {
      with_type(dtype, [&](auto type) {
        using T = decltype(type);
        for (Rank root = 0; root < size(); ++root) {
          const std::vector<T> expected = input_of<T>(root, count);
          run_ranks(size(), [&](Rank rank) {
            std::vector<T> values = input_of<T>(rank, count);
            groups[rank]->broadcast(tensor_of(values), root)->wait();
            EXPECT_TRUE(values == expected) << name_of(dtype) << " x " << count;
          });
        }
      });
    }
  }
}

TEST_P(BackendContract, GathersEveryTypeInRankOrder) {
  const Groups groups = open_groups(size(), options());
  for (const DType dtype : kDTypes) {
    for (const std::size_t count : counts(dtype)) {
      with_type(dtype, [&](auto type) {
        using T = decltype(type);
        std::vector<T> expected;
        for (Rank rank = 0; rank < size(); ++rank) {
          const std::vector<T> part = input_of<T>(rank, count);
          expected.insert(expected.end(), part.begin(), part.end());
        }
        run_ranks(size(), [&](Rank rank) {
          std::vector<T> input = input_of<T>(rank, count);
          std::vector<T> output(count * size());
          groups[rank]->all_gather_single(tensor_of(output), tensor_of(input))->wait();
          EXPECT_TRUE(output == expected) << name_of(dtype) << " x " << count;

          std::fill(output.begin(), output.end(), T{});
          const Tensor whole = tensor_of(output);
          const Tensor own = whole.slice(rank * count, count);
          std::copy(input.begin(), input.end(),
                    output.begin() + static_cast<std::ptrdiff_t>(rank * count));
          groups[rank]->all_gather_single(whole, own)->wait();
          EXPECT_TRUE(output == expected) << "in place, " << name_of(dtype) << " x " << count;
        });
      });
    }
  }
}

TEST_P(BackendContract, GivesAllRanksTheSameBitsForAnyFloats) {
  const Groups groups = open_groups(size(), options());
  std::vector<std::vector<float>> values(size());
  for (Rank rank = 0; rank < size(); ++rank) {
    std::mt19937 random(rank);
    for (int i = 0; i < 100'003; ++i) {
      values[rank].push_back(static_cast<float>(random()) / 1e6f - 2000.0f);
    }
  }
  run_ranks(size(), [&](Rank rank) {
    groups[rank]->all_reduce(tensor_of(values[rank]), ReduceOp::avg)->wait();
  });
  for (Rank rank = 1; rank < size(); ++rank) EXPECT_TRUE(values[rank] == values[0]);
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
    for (int i = 0; i < 20; ++i) works.push_back(groups[rank]->all_reduce(tensor_of(value)));
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
      const WorkPtr late = groups[rank]->barrier();
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
    for (auto& one : values) works.push_back(groups[rank]->all_reduce(tensor_of(one)));
    groups[rank]->shutdown();
    for (const WorkPtr& work : works) EXPECT_EQ(work->status(), Work::Status::done);
    for (const auto& one : values) EXPECT_EQ(one.back(), static_cast<float>(size()));
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, BackendContract,
                         ::testing::Combine(::testing::ValuesIn(testing::backends()),
                                            ::testing::Values(1, 2, 3, 4)),
                         [](const auto& instance) {
                           return std::get<0>(instance.param) +
                                  std::to_string(std::get<1>(instance.param));
                         });

}  // namespace
}  // namespace c10dd
