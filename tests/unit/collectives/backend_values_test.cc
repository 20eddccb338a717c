// SPDX-License-Identifier: Apache-2.0
// Values at the edges of their types, over every backend: NaN in min and max, and averages that fit
// although the sums do not.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "collectives/process_group.h"
#include "tests/unit/collectives/expected.h"
#include "tests/unit/collectives/thread_ranks.h"

namespace c10dd {
namespace {

using namespace std::chrono_literals;
using test::each_type;
using test::element;
using test::number;
using test::open_groups;
using test::run_ranks;
using test::tensor;

class BackendValues : public ::testing::TestWithParam<std::tuple<std::string, Rank>> {
 protected:
  std::vector<std::shared_ptr<ProcessGroup>> open() const {
    return open_groups(size(), {.backend = std::get<0>(GetParam()), .timeout = 60s});
  }
  Rank size() const { return std::get<1>(GetParam()); }
};

/// Calls run(output, own values) for each way of reducing in which every rank gets a result.
template <class T, class Check>
void reduced_everywhere(ProcessGroup& group, const std::vector<T>& own, DType dtype, ReduceOp op,
                        const Check& check) {
  std::vector<T> all = own;
  group.all_reduce(tensor(all, dtype), op);
  check(all, "all_reduce");
  std::vector<T> at_root = own;
  group.reduce(tensor(at_root, dtype), 0, op);
  if (group.rank() == 0) check(at_root, "reduce");
  if (group.rank() != 0) {  // the bytes, because NaN differs from itself
    EXPECT_TRUE(
        std::ranges::equal(std::as_bytes(std::span(at_root)), std::as_bytes(std::span(own))));
  }
  std::vector<T> whole;
  for (Rank rank = 0; rank < group.size(); ++rank) {
    whole.insert(whole.end(), own.begin(), own.end());
  }
  std::vector<T> part(own.size());
  group.reduce_scatter_single(tensor(part, dtype), tensor(whole, dtype), op);
  check(part, "reduce_scatter");
}

TEST_P(BackendValues, NaNOfAnyRankIsKeptOnAllRanks) {
  const auto groups = open();
  each_type([&]<class T>(DType dtype, std::type_identity<T>) {
    if constexpr (!std::is_integral_v<T>) {
      for (Rank bad = 0; bad < size(); ++bad) {
        for (const ReduceOp::Kind kind : {ReduceOp::min, ReduceOp::max}) {
          run_ranks(size(), [&](Rank rank) {
            // As many elements as ranks, so that each rank reduces a part.
            std::vector<T> own(size() * 3, element<T>(rank + 1));
            if (rank == bad) own.assign(own.size(), element<T>(std::nan("")));
            reduced_everywhere(*groups[rank], own, dtype, kind,
                               [&](const std::vector<T>& got, const char* how) {
                                 for (const T value : got) {
                                   EXPECT_TRUE(std::isnan(number(value)))
                                       << how << ", " << name_of(kind) << " of " << name_of(dtype)
                                       << ", NaN on rank " << bad << ", got " << number(value);
                                 }
                               });
          });
        }
      }
    }
  });
}

TEST_P(BackendValues, AveragesFitWhereSumsDoNot) {
  const auto groups = open();
  each_type([&]<class T>(DType dtype, std::type_identity<T>) {
    if (dtype == DType::boolean || dtype == DType::int64) return;  // the sum of int64 wraps around
    // Not the largest number itself: an average that is rounded up would be infinite.
    const double most = std::is_same_v<T, Float16>                                ? 60000.0
                        : std::is_same_v<T, BFloat16> || std::is_same_v<T, float> ? 3e38
                        : std::is_same_v<T, double>                               ? 1.7e308
                                                    : number(std::numeric_limits<T>::max());
    const double least = std::is_integral_v<T> ? number(std::numeric_limits<T>::min()) : -most;
    for (const double value : {most, least}) {
      run_ranks(size(), [&](Rank rank) {
        const std::vector<T> own(5, element<T>(value));
        reduced_everywhere(
            *groups[rank], own, dtype, ReduceOp::avg,
            [&](const std::vector<T>& got, const char* how) {
              const double error = std::abs(number(got[0]) - number(own[0]));
              const double bound = std::is_integral_v<T> ? 0 : 0.02 * std::abs(value);
              EXPECT_LE(error, bound) << how << " of " << size() << " x " << value << " as "
                                      << name_of(dtype) << " is " << number(got[0]);
            });
      });
    }
  });
}

TEST_P(BackendValues, AveragesOfIntegersTruncateTowardsZero) {
  const auto groups = open();
  run_ranks(size(), [&](Rank rank) {
    // The sum is -(2 size - 1), whose average lies between -2 and -1, or is -1.
    std::vector<std::int8_t> own = {static_cast<std::int8_t>(rank == 0 ? -1 : -2)};
    groups[rank]->all_reduce(tensor(own, DType::int8), ReduceOp::avg);
    EXPECT_EQ(own[0], -1);
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, BackendValues,
                         ::testing::Combine(::testing::ValuesIn(test::backends()),
                                            ::testing::Values(1, 2, 3, 4)),
                         [](const auto& instance) {
                           return std::get<0>(instance.param) + "_" +
                                  std::to_string(std::get<1>(instance.param));
                         });

}  // namespace
}  // namespace c10dd
