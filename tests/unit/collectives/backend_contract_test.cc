// SPDX-License-Identifier: Apache-2.0
// One suite over every backend that runs on a cpu, with ranks as threads. Results are compared
// with a serial computation; inputs are small whole numbers, so floats are exact in any order.
// c10dd-matrix has every type with every reduction in small sizes (docs/backends.md), so this suite
// has all sizes of two types, and one size of the others. C10DD_CONTRACT_LONG=1 gives all types all
// sizes, and repeats more often.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "client/errors.h"
#include "collectives/process_group.h"
#include "tests/unit/collectives/expected.h"
#include "tests/unit/collectives/thread_ranks.h"

namespace c10dd {
namespace {

using namespace std::chrono_literals;
using test::each_type;
using test::factor_of;
using test::Groups;
using test::input_of;
using test::Inputs;
using test::inputs_of;
using test::matches;
using test::open_groups;
using test::reduction_of;
using test::run_ranks;
using test::tensor;

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
    return chosen(dtype, ((2 * size() + 1) << 20) / size_of(dtype) + 3);
  }
  /// Counts of the part of each rank.
  std::vector<std::size_t> parts(DType dtype) const { return chosen(dtype, 100'003); }

  static bool is_long() { return std::getenv("C10DD_CONTRACT_LONG") != nullptr; }

 private:
  static std::vector<std::size_t> chosen(DType dtype, std::size_t large) {
    const bool all = dtype == DType::int8 || dtype == DType::float32 || is_long();
    return all ? std::vector<std::size_t>{0, 1, 1021, large} : std::vector<std::size_t>{1021};
  }
};

TEST_P(BackendContract, ReducesEveryTypeByEveryOperation) {
  const Groups groups = open_groups(size(), options());
  each_type([&]<class T>(DType dtype, std::type_identity<T>) {
    for (const std::size_t count : counts(dtype)) {
      const Inputs<T> inputs = inputs_of<T>(size(), count, dtype);
      for (std::size_t kind = 0; kind < kReduceOps; ++kind) {
        const ReduceOp op(static_cast<ReduceOp::Kind>(kind));
        if (!combines(op, dtype)) continue;
        // Large tensors concern the backend's algorithm, which is the same for all operations.
        const bool any_size = op == ReduceOp::sum || op == ReduceOp::avg;
        if (count > 2'000 && !any_size && dtype != DType::float32) continue;
        const std::vector<T> expected = reduction_of(inputs, op, dtype);
        run_ranks(size(), [&](Rank rank) {
          std::vector<T> values = inputs[rank];
          groups[rank]->all_reduce(tensor(values, dtype), {op.kind, factor_of(rank)})->wait();
          EXPECT_TRUE(matches(values, expected, op))
              << name_of(dtype) << " " << name_of(op) << " of " << count << " on rank " << rank;
        });
      }
    }
  });
}

TEST_P(BackendContract, BroadcastsEveryTypeFromEveryRank) {
  const Groups groups = open_groups(size(), options());
  each_type([&]<class T>(DType dtype, std::type_identity<T>) {
    for (const std::size_t count : counts(dtype)) {
      for (Rank root = 0; root < size(); ++root) {
        const std::vector<T> expected = input_of<T>(root, count, dtype);
        run_ranks(size(), [&](Rank rank) {
          std::vector<T> values = input_of<T>(rank, count, dtype);
          groups[rank]->broadcast(tensor(values, dtype), root)->wait();
          EXPECT_TRUE(values == expected) << name_of(dtype) << " x " << count;
        });
      }
    }
  });
}

TEST_P(BackendContract, GathersEveryTypeInRankOrder) {
  const Groups groups = open_groups(size(), options());
  each_type([&]<class T>(DType dtype, std::type_identity<T>) {
    for (const std::size_t count : counts(dtype)) {
      std::vector<T> expected;
      for (Rank rank = 0; rank < size(); ++rank) {
        const std::vector<T> part = input_of<T>(rank, count, dtype);
        expected.insert(expected.end(), part.begin(), part.end());
      }
      run_ranks(size(), [&](Rank rank) {
        std::vector<T> input = input_of<T>(rank, count, dtype);
        std::vector<T> output(count * size());
        groups[rank]->all_gather_single(tensor(output, dtype), tensor(input, dtype))->wait();
        EXPECT_TRUE(output == expected) << name_of(dtype) << " x " << count;

        std::fill(output.begin(), output.end(), T{});
        const Tensor whole = tensor(output, dtype);
        const Tensor own = whole.slice(rank * count, count);
        std::copy(input.begin(), input.end(),
                  output.begin() + static_cast<std::ptrdiff_t>(rank * count));
        groups[rank]->all_gather_single(whole, own)->wait();
        EXPECT_TRUE(output == expected) << "in place, " << name_of(dtype) << " x " << count;
      });
    }
  });
}

TEST_P(BackendContract, ReducesEveryTypeToEveryRoot) {
  const Groups groups = open_groups(size(), options());
  each_type([&]<class T>(DType dtype, std::type_identity<T>) {
    for (const std::size_t count : counts(dtype)) {
      const Inputs<T> inputs = inputs_of<T>(size(), count, dtype);
      for (std::size_t kind = 0; kind < kReduceOps; ++kind) {
        const ReduceOp op(static_cast<ReduceOp::Kind>(kind));
        if (!combines(op, dtype) || (count > 2'000 && op != ReduceOp::sum)) continue;
        const std::vector<T> expected = reduction_of(inputs, op, dtype);
        const Rank root = static_cast<Rank>(kind) % size();
        run_ranks(size(), [&](Rank rank) {
          std::vector<T> values = inputs[rank];
          groups[rank]->reduce(tensor(values, dtype), root, {op.kind, factor_of(rank)})->wait();
          EXPECT_TRUE(rank == root ? matches(values, expected, op) : values == inputs[rank])
              << name_of(dtype) << " " << name_of(op) << " of " << count << " on rank " << rank;
        });
      }
    }
  });
}

TEST_P(BackendContract, ReducesAndScattersEveryTypeByEveryOperation) {
  const Groups groups = open_groups(size(), options());
  each_type([&]<class T>(DType dtype, std::type_identity<T>) {
    for (const std::size_t part : parts(dtype)) {
      const std::size_t count = part * size();
      const Inputs<T> inputs = inputs_of<T>(size(), count, dtype);
      for (std::size_t kind = 0; kind < kReduceOps; ++kind) {
        const ReduceOp op(static_cast<ReduceOp::Kind>(kind));
        if (!combines(op, dtype) || (count > 5'000 && op != ReduceOp::avg)) continue;
        const std::vector<T> expected = reduction_of(inputs, op, dtype);
        run_ranks(size(), [&](Rank rank) {
          const std::vector<T> own(
              expected.begin() + static_cast<std::ptrdiff_t>(rank * part),
              expected.begin() + static_cast<std::ptrdiff_t>((rank + 1) * part));
          const ReduceOp mine(op.kind, factor_of(rank));
          std::vector<T> input = inputs[rank];
          std::vector<T> output(part);
          const Tensor whole = tensor(input, dtype);
          groups[rank]->reduce_scatter_single(tensor(output, dtype), whole, mine)->wait();
          EXPECT_TRUE(matches(output, own, op))
              << name_of(dtype) << " " << name_of(op) << " x " << part;
          EXPECT_TRUE(input == inputs[rank]) << "the input has changed";
          groups[rank]->reduce_scatter_single(whole.slice(rank * part, part), whole, mine)->wait();
          const auto at = input.begin() + static_cast<std::ptrdiff_t>(rank * part);
          const std::vector<T> in_place(at, at + static_cast<std::ptrdiff_t>(part));
          EXPECT_TRUE(matches(in_place, own, op))
              << "in place, " << name_of(dtype) << " " << name_of(op) << " x " << part;
        });
      }
    }
  });
}

TEST_P(BackendContract, GathersToEveryRootAndScattersFromIt) {
  const Groups groups = open_groups(size(), options());
  each_type([&]<class T>(DType dtype, std::type_identity<T>) {
    for (const std::size_t part : parts(dtype)) {
      std::vector<T> whole;
      for (Rank rank = 0; rank < size(); ++rank) {
        const std::vector<T> own = input_of<T>(rank, part, dtype);
        whole.insert(whole.end(), own.begin(), own.end());
      }
      for (Rank root = 0; root < size(); ++root) {
        run_ranks(size(), [&](Rank rank) {
          ProcessGroup& group = *groups[rank];
          const bool has_all = rank == root;
          std::vector<T> own = input_of<T>(rank, part, dtype);
          std::vector<T> all(has_all ? part * size() : 0);
          group.gather_single(tensor(all, dtype), tensor(own, dtype), root)->wait();
          EXPECT_TRUE(!has_all || all == whole) << name_of(dtype) << " x " << part;
          std::fill(own.begin(), own.end(), T{});
          group.scatter_single(tensor(own, dtype), tensor(all, dtype), root)->wait();
          EXPECT_TRUE(own == input_of<T>(rank, part, dtype)) << name_of(dtype) << " x " << part;

          // On the root, the rank's own part may be in its place already.
          const Tensor place =
              has_all ? tensor(all, dtype).slice(rank * part, part) : tensor(own, dtype);
          group.gather_single(tensor(all, dtype), place, root)->wait();
          group.scatter_single(place, tensor(all, dtype), root)->wait();
          EXPECT_TRUE(has_all ? all == whole : own == input_of<T>(rank, part, dtype))
              << "in place, " << name_of(dtype) << " x " << part;
        });
      }
    }
  });
}

TEST_P(BackendContract, ExchangesEveryTypeAmongAll) {
  const Groups groups = open_groups(size(), options());
  each_type([&]<class T>(DType dtype, std::type_identity<T>) {
    for (const std::size_t part : parts(dtype)) {
      run_ranks(size(), [&](Rank rank) {
        std::vector<T> input = input_of<T>(rank, part * size(), dtype);
        std::vector<T> output(part * size());
        groups[rank]->all_to_all_single(tensor(output, dtype), tensor(input, dtype))->wait();
        std::vector<T> expected;
        for (Rank from = 0; from < size(); ++from) {
          const std::vector<T> sent = input_of<T>(from, part * size(), dtype);
          const auto first = sent.begin() + static_cast<std::ptrdiff_t>(rank * part);
          expected.insert(expected.end(), first, first + static_cast<std::ptrdiff_t>(part));
        }
        EXPECT_TRUE(output == expected) << name_of(dtype) << " x " << part;
        EXPECT_TRUE(input == input_of<T>(rank, part * size(), dtype)) << "the input has changed";
      });
    }
  });
}

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

TEST_P(BackendContract, AddsBooleansOfAnyByte) {
  const Groups groups = open_groups(size(), options());
  run_ranks(size(), [&](Rank rank) {
    std::vector<std::uint8_t> bytes = {0, static_cast<std::uint8_t>(2 << rank), 255};
    groups[rank]->all_reduce(tensor(bytes, DType::boolean))->wait();
    EXPECT_EQ(bytes, (std::vector<std::uint8_t>{0, 1, 1}));
  });
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
