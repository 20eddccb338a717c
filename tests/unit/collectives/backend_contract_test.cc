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
#include <type_traits>
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

/// Calls `f` for each type of elements: with its DType, and with the type in which a test keeps
/// elements. The test keeps a boolean as a byte, because a vector of bool stores bits.
template <class F>
void each_type(F f) {
  for (std::size_t i = 0; i < kDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    with_dtype(dtype, [&]<class T>(std::type_identity<T>) {
      using Kept = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;
      f(dtype, std::type_identity<Kept>());
    });
  }
}

template <class T>
Tensor tensor(std::vector<T>& values, DType dtype) {
  Tensor result = tensor_of(values);
  result.dtype = dtype;
  return result;
}

template <class T>
double number(T value) {
  if constexpr (std::is_class_v<T>) {
    return static_cast<float>(value);
  } else {
    return static_cast<double>(value);
  }
}
template <class T>
T element(double value) {
  if constexpr (std::is_class_v<T>) {
    return T(static_cast<float>(value));
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<std::int64_t>(value));  // wraps
  } else {
    return static_cast<T>(value);
  }
}

/// Small whole numbers, negative too if the type has such; 0 and 1 for booleans.
template <class T>
std::vector<T> input_of(Rank rank, std::size_t count, DType dtype) {
  std::vector<T> values(count);
  const int shift = std::is_unsigned_v<T> ? 0 : 2;
  const int different = dtype == DType::boolean ? 2 : 5;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t place = i * 7 + rank * 3 + i / 5;
    values[i] = element<T>(static_cast<int>(place % static_cast<unsigned>(different)) - shift);
  }
  return values;
}

double combined(ReduceOp op, bool truth, double a, double b) {
  const auto x = static_cast<std::int64_t>(a);
  const auto y = static_cast<std::int64_t>(b);
  switch (op.kind) {
    case ReduceOp::product:
      return a * b;
    case ReduceOp::min:
      return std::min(a, b);
    case ReduceOp::max:
      return std::max(a, b);
    case ReduceOp::band:
      return static_cast<double>(x & y);
    case ReduceOp::bor:
      return static_cast<double>(x | y);
    case ReduceOp::bxor:
      return static_cast<double>(x ^ y);
    default:
      return truth ? std::max(a, b) : a + b;
  }
}

/// The factor of a rank in premul_sum: a power of two, so that the products are exact.
double factor_of(Rank rank) { return rank % 2 == 0 ? 0.5 : 4; }

template <class T>
T expected_at(std::size_t i, Rank size, ReduceOp op, DType dtype,
              const std::vector<std::vector<T>>& inputs) {
  const auto at = [&](Rank rank) {
    const double factor = op.kind == ReduceOp::premul_sum ? factor_of(rank) : 1;
    return number(inputs[rank][i]) * factor;
  };
  double result = at(0);
  for (Rank rank = 1; rank < size; ++rank) {
    result = combined(op, dtype == DType::boolean, result, at(rank));
  }
  if (op.kind != ReduceOp::avg) return element<T>(result);
  if (std::is_integral_v<T>) return element<T>(std::trunc(result / size));
  return std::is_same_v<T, double>
             ? element<T>(result / size)
             : element<T>(static_cast<float>(result) / static_cast<float>(size));
}

template <class T>
using Inputs = std::vector<std::vector<T>>;  // of all ranks

template <class T>
Inputs<T> inputs_of(Rank size, std::size_t count, DType dtype) {
  Inputs<T> inputs;
  for (Rank rank = 0; rank < size; ++rank) inputs.push_back(input_of<T>(rank, count, dtype));
  return inputs;
}

template <class T>
std::vector<T> reduction_of(const Inputs<T>& inputs, ReduceOp op, DType dtype) {
  std::vector<T> result(inputs.front().size());
  for (std::size_t i = 0; i < result.size(); ++i) {
    result[i] = expected_at(i, static_cast<Rank>(inputs.size()), op, dtype, inputs);
  }
  return result;
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
          EXPECT_TRUE(values == expected)
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
          EXPECT_TRUE(values == (rank == root ? expected : inputs[rank]))
              << name_of(dtype) << " " << name_of(op) << " of " << count << " on rank " << rank;
        });
      }
    }
  });
}

TEST_P(BackendContract, ReducesAndScattersEveryTypeByEveryOperation) {
  const Groups groups = open_groups(size(), options());
  each_type([&]<class T>(DType dtype, std::type_identity<T>) {
    for (const std::size_t part : {0u, 1u, 1021u, 100'003u}) {
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
          EXPECT_TRUE(output == own) << name_of(dtype) << " " << name_of(op) << " x " << part;
          EXPECT_TRUE(input == inputs[rank]) << "the input has changed";
          groups[rank]->reduce_scatter_single(whole.slice(rank * part, part), whole, mine)->wait();
          EXPECT_TRUE(std::equal(own.begin(), own.end(),
                                 input.begin() + static_cast<std::ptrdiff_t>(rank * part)))
              << "in place, " << name_of(dtype) << " " << name_of(op) << " x " << part;
        });
      }
    }
  });
}

TEST_P(BackendContract, GathersToEveryRootAndScattersFromIt) {
  const Groups groups = open_groups(size(), options());
  each_type([&]<class T>(DType dtype, std::type_identity<T>) {
    for (const std::size_t part : {0u, 1u, 1021u, 100'003u}) {
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
    for (const std::size_t part : {0u, 1u, 1021u, 100'003u}) {
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

/// Elements that rank `from` has for rank `to` in the tests of lists: some have none.
std::size_t part(Rank from, Rank to) { return (from * 3 + to * 5) % 4 * 701; }

TEST_P(BackendContract, MovesListsOfTensorsOfAnySizes) {
  const Groups groups = open_groups(size(), options());
  each_type([&]<class T>(DType dtype, std::type_identity<T>) {
    const auto lists = [&](const auto& count_of) {
      Inputs<T> memory(size());
      for (Rank rank = 0; rank < size(); ++rank) memory[rank].resize(count_of(rank));
      return memory;
    };
    const auto tensors = [&](Inputs<T>& memory) {
      std::vector<Tensor> all;
      for (std::vector<T>& one : memory) all.push_back(tensor(one, dtype));
      return all;
    };
    for (Rank root = 0; root < size(); ++root) {
      run_ranks(size(), [&](Rank rank) {
        ProcessGroup& group = *groups[rank];
        // Rank i has part(i, root) elements.
        std::vector<T> own = input_of<T>(rank, part(rank, root), dtype);
        Inputs<T> all = lists([&](Rank from) { return part(from, root); });
        group.all_gather(tensors(all), tensor(own, dtype));
        for (Rank from = 0; from < size(); ++from) {
          EXPECT_TRUE(all[from] == input_of<T>(from, part(from, root), dtype)) << name_of(dtype);
          std::fill(all[from].begin(), all[from].end(), T{});
        }
        const bool is_root = rank == root;
        group.gather(is_root ? tensors(all) : std::vector<Tensor>{}, tensor(own, dtype), root);
        for (Rank from = 0; is_root && from < size(); ++from) {
          EXPECT_TRUE(all[from] == input_of<T>(from, part(from, root), dtype)) << name_of(dtype);
        }
        std::fill(own.begin(), own.end(), T{});
        group.scatter(tensor(own, dtype), is_root ? tensors(all) : std::vector<Tensor>{}, root);
        EXPECT_TRUE(own == input_of<T>(rank, part(rank, root), dtype)) << name_of(dtype);
      });
    }
    run_ranks(size(), [&](Rank rank) {
      Inputs<T> inputs = lists([&](Rank to) { return part(rank, to); });
      Inputs<T> outputs = lists([&](Rank from) { return part(from, rank); });
      std::vector<T> input;
      std::vector<std::size_t> in_splits;
      std::vector<std::size_t> out_splits;
      for (Rank other = 0; other < size(); ++other) {
        inputs[other] = input_of<T>(rank + 10 * other, part(rank, other), dtype);
        input.insert(input.end(), inputs[other].begin(), inputs[other].end());
        in_splits.push_back(part(rank, other));
        out_splits.push_back(part(other, rank));
      }
      groups[rank]->all_to_all(tensors(outputs), tensors(inputs));
      std::vector<T> expected;
      for (Rank from = 0; from < size(); ++from) {
        EXPECT_TRUE(outputs[from] == input_of<T>(from + 10 * rank, part(from, rank), dtype));
        expected.insert(expected.end(), outputs[from].begin(), outputs[from].end());
      }
      std::vector<T> output(expected.size());
      groups[rank]->all_to_all_single(tensor(output, dtype), tensor(input, dtype), out_splits,
                                      in_splits);
      EXPECT_TRUE(output == expected) << name_of(dtype);
    });
  });
}

TEST_P(BackendContract, ReducesAndScattersPartsOfAnySizes) {
  const Groups groups = open_groups(size(), options());
  each_type([&]<class T>(DType dtype, std::type_identity<T>) {
    for (const ReduceOp::Kind kind : {ReduceOp::sum, ReduceOp::avg, ReduceOp::max}) {
      if (!combines(kind, dtype)) continue;
      run_ranks(size(), [&](Rank rank) {
        Inputs<T> inputs;
        std::vector<Tensor> tensors;
        for (Rank to = 0; to < size(); ++to) {
          inputs.push_back(input_of<T>(rank, part(to, 1), dtype));
        }
        const Inputs<T> before = inputs;
        for (auto& one : inputs) tensors.push_back(tensor(one, dtype));
        std::vector<T> output(part(rank, 1));
        groups[rank]->reduce_scatter(tensor(output, dtype), tensors, kind);
        const std::vector<T> expected =
            reduction_of(inputs_of<T>(size(), output.size(), dtype), kind, dtype);
        EXPECT_TRUE(output == expected) << name_of(dtype) << " " << name_of(kind);
        EXPECT_TRUE(inputs == before) << "an input has changed";
      });
    }
  });
}

TEST_P(BackendContract, ReducesAndScattersAThousandTimesInARow) {
  const Groups groups = open_groups(size(), options());
  run_ranks(size(), [&](Rank rank) {
    std::vector<std::int32_t> input(7 * size());
    std::vector<std::int32_t> output(7);
    for (std::int32_t round = 0; round < 1'000; ++round) {
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
                         ::testing::Combine(::testing::ValuesIn(testing::backends()),
                                            ::testing::Values(1, 2, 3, 4)),
                         [](const auto& instance) {
                           return std::get<0>(instance.param) +
                                  std::to_string(std::get<1>(instance.param));
                         });

}  // namespace
}  // namespace c10dd
