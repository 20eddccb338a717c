// SPDX-License-Identifier: Apache-2.0
// The plan of buckets: order, limits, dtypes, offsets.
#include "ddp/buckets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "client/errors.h"

namespace c10dd::ddp {
namespace {

using Indices = std::vector<std::size_t>;

constexpr BucketLimits kSmall{.first_bytes = 40, .bytes = 100};  // 10 and 25 floats

std::vector<GradientSize> floats(const std::vector<std::size_t>& counts) {
  std::vector<GradientSize> sizes;
  for (const std::size_t count : counts) sizes.push_back({count, DType::float32});
  return sizes;
}

TEST(Buckets, FillFromTheLastParameterBackwards) {
  const auto plan = plan_buckets(floats({20, 5, 5, 5}), kSmall);
  ASSERT_EQ(plan.size(), 2u);
  EXPECT_EQ(plan[0].parameters, (Indices{3, 2}));
  EXPECT_EQ(plan[0].offsets, (Indices{0, 5}));
  EXPECT_EQ(plan[0].count, 10u);
  EXPECT_EQ(plan[1].parameters, (Indices{1, 0}));
  EXPECT_EQ(plan[1].offsets, (Indices{0, 5}));
  EXPECT_EQ(plan[1].count, 25u);
}

TEST(Buckets, FirstLimitIsOnlyForTheFirstBucket) {
  const auto plan = plan_buckets(floats({10, 10, 5, 10}), kSmall);
  ASSERT_EQ(plan.size(), 2u);
  EXPECT_EQ(plan[0].parameters, Indices{3});
  EXPECT_EQ(plan[1].parameters, (Indices{2, 1, 0}));
}

TEST(Buckets, LimitIsExceededOnlyByOneLargeParameter) {
  const auto plan = plan_buckets(floats({3, 1000, 3, 8}), kSmall);
  ASSERT_EQ(plan.size(), 4u);
  EXPECT_EQ(plan[0].parameters, Indices{3});
  EXPECT_EQ(plan[1].parameters, Indices{2});
  EXPECT_EQ(plan[2].parameters, Indices{1});
  EXPECT_EQ(plan[2].count, 1000u);
  EXPECT_EQ(plan[3].parameters, Indices{0});
}

TEST(Buckets, DtypesDoNotMixAndKeepTheOrderOfBackward) {
  const std::vector<GradientSize> sizes = {{2, DType::float32},
                                           {2, DType::float64},
                                           {2, DType::float32},
                                           {5, DType::float64},
                                           {9, DType::float32}};
  const auto plan = plan_buckets(sizes, kSmall);
  ASSERT_EQ(plan.size(), 4u);
  EXPECT_EQ(plan[0].parameters, Indices{4});  // closed by parameter 2, complete before 3
  EXPECT_EQ(plan[1].parameters, Indices{3});  // full
  EXPECT_EQ(plan[2].parameters, Indices{1});
  EXPECT_EQ(plan[3].parameters, (Indices{2, 0}));
  EXPECT_EQ(plan[1].dtype, DType::float64);
}

TEST(Buckets, DefaultLimitsAreOneAndTwentyFiveMebibytes) {
  const std::size_t mib = (std::size_t{1} << 20) / sizeof(float);
  const auto plan = plan_buckets(floats(std::vector<std::size_t>(60, mib)));
  ASSERT_EQ(plan.size(), 4u);
  EXPECT_EQ(plan[0].count, mib);
  EXPECT_EQ(plan[1].count, 25 * mib);
  EXPECT_EQ(plan[2].count, 25 * mib);
  EXPECT_EQ(plan[3].count, 9 * mib);
}

TEST(Buckets, EmptyInputsAreFine) {
  EXPECT_TRUE(plan_buckets({}).empty());
  const auto plan = plan_buckets(floats({0, 3, 0}), kSmall);
  ASSERT_EQ(plan.size(), 1u);
  EXPECT_EQ(plan[0].parameters, (Indices{2, 1, 0}));
}

TEST(Buckets, ZeroLimitIsRefused) {
  EXPECT_THROW(plan_buckets({}, {.first_bytes = 0, .bytes = 1}), InvalidArgument);
  EXPECT_THROW(plan_buckets({}, {.first_bytes = 1, .bytes = 0}), InvalidArgument);
}

TEST(Buckets, EveryParameterHasOnePlaceWhateverTheSizes) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<GradientSize> sizes(random() % 40);
    for (GradientSize& size : sizes) size = {random() % 60, static_cast<DType>(random() % kDTypes)};
    const auto plan = plan_buckets(sizes, kSmall);
    std::vector<int> seen(sizes.size());
    std::size_t previous_end = sizes.size();
    std::vector<int> buckets_of(kDTypes);
    for (const Bucket& bucket : plan) {
      std::size_t offset = 0;
      for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
        const std::size_t parameter = bucket.parameters[i];
        ++seen[parameter];
        EXPECT_EQ(sizes[parameter].dtype, bucket.dtype);
        EXPECT_EQ(bucket.offsets[i], offset);
        offset += sizes[parameter].count;
      }
      EXPECT_EQ(offset, bucket.count);
      EXPECT_LT(bucket.parameters.back(), previous_end);
      previous_end = bucket.parameters.back();
      const bool first = buckets_of[static_cast<std::size_t>(bucket.dtype)]++ == 0;
      const std::size_t limit = first ? kSmall.first_bytes : kSmall.bytes;
      EXPECT_TRUE(bucket.parameters.size() == 1 || bucket.count * size_of(bucket.dtype) <= limit);
    }
    EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](int times) { return times == 1; }));
  }
}

}  // namespace
}  // namespace c10dd::ddp
