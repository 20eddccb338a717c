// SPDX-License-Identifier: Apache-2.0
// What a reducer asks of its group, over a backend that the test plays: which collective and when,
// what a second step begins with, and a bucket that fails while another hangs.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "client/errors.h"
#include "collectives/abortable_group.h"
#include "ddp/reducer.h"
#include "tests/unit/collectives/scripted_backend.h"
#include "tests/unit/collectives/thread_ranks.h"

namespace c10dd::ddp {
namespace {

using namespace std::chrono_literals;

constexpr double kMbOfFloat = 4.0 / (1 << 20);
constexpr ReducerOptions kBucketOfTwo{.first_bucket_cap_mb = 2 * kMbOfFloat,
                                      .bucket_cap_mb = 2 * kMbOfFloat};

/// Rank 0 of two, whose peer agrees with all that it says. Six parameters of one element, in three
/// buckets: 5 and 4, 3 and 2, 1 and 0.
class ReducerWiring : public testing::Test {
 protected:
  static constexpr std::size_t kParameters = 6;

  ReducerWiring() {
    script.name = "at once";  // so that nothing is issued later than it looks
    script.answers = [this](const Operation& operation) { return answer(operation); };
    open(0, 2);
  }
  void open(Rank rank, Rank size) {
    group = collectives::group_over(std::make_shared<test::ScriptedBackend>(script),
                                    {.rank = rank, .size = size}, {.timeout = 1h});
  }
  bool answer(const Operation& operation) {
    if (operation.collective == Collective::all_reduce) return false;
    if (operation.collective == Collective::all_gather) {
      for (Rank rank = 0; rank < group->size(); ++rank) {
        const std::size_t count = operation.input.count;
        const Tensor part = operation.output.slice(rank * count, count);
        std::memcpy(part.data, operation.input.data, operation.input.bytes());
      }
    }
    if (operation.collective == Collective::broadcast && group->rank() != 0) {
      for (std::size_t i = 0; i < operation.output.count; ++i) {
        floats(operation.output)[i] = static_cast<float>(100 * ++broadcasts);
      }
    }
    return true;
  }
  std::unique_ptr<Reducer> make(ReducerOptions options = kBucketOfTwo) {
    std::vector<Parameter> parameters;
    for (std::size_t i = 0; i < kParameters; ++i) {
      parameters.push_back({.name = "p" + std::to_string(i),
                            .value = tensor_of(&values[i], 1),
                            .shape = {1},
                            .gradient = own_gradients ? tensor_of(&gradients[i], 1) : Tensor{}});
    }
    auto reducer = std::make_unique<Reducer>(*group, std::move(parameters), options);
    before = script.started();
    return reducer;
  }
  static float* floats(const Tensor& tensor) { return static_cast<float*>(tensor.data); }
  static void mark(Reducer& reducer, std::initializer_list<std::size_t> parameters, float value) {
    for (const std::size_t one : parameters) {
      floats(reducer.gradient(one))[0] = value + static_cast<float>(one);
      reducer.mark_ready(one);
    }
  }
  /// The values of a bucket that was issued, by its number among all that were issued.
  std::vector<float> issued(std::size_t number) {
    EXPECT_TRUE(script.await_started(before + number + 1));
    const Operation operation = script.operation(before + number);
    EXPECT_EQ(operation.collective, Collective::all_reduce);
    EXPECT_EQ(operation.reduce.kind, ReduceOp::avg);
    return {floats(operation.output), floats(operation.output) + operation.output.count};
  }
  std::size_t issued() const { return script.started() - before; }
  void average(std::size_t number, float value) {
    EXPECT_TRUE(script.await_started(before + number + 1));
    const Operation operation = script.operation(before + number);
    for (std::size_t i = 0; i < operation.output.count; ++i) floats(operation.output)[i] = value;
    script.end(before + number);
  }
  void mark_all(Reducer& reducer) { mark(reducer, {5, 4, 3, 2, 1, 0}, 10); }

  test::BackendScript script;
  std::shared_ptr<ProcessGroup> group;
  std::vector<float> values = std::vector<float>(kParameters, 1.0F);
  std::vector<float> gradients = std::vector<float>(kParameters, -1.0F);
  bool own_gradients = false;
  std::size_t before = 0;  // operations of the constructor
  int broadcasts = 0;
};

TEST_F(ReducerWiring, BucketsAreIssuedInTheirOrderAndOnlyWhenTheyAreFull) {
  const auto reducer = make();
  ASSERT_EQ(reducer->buckets().size(), 3u);
  mark(*reducer, {0, 1, 2}, 10);  // the last bucket is full
  mark(*reducer, {4}, 10);
  EXPECT_EQ(issued(), 0u) << "the first bucket is not full";
  EXPECT_THROW(reducer->mark_ready(4), InvalidArgument);
  EXPECT_EQ(issued(), 0u) << "a parameter counts once";
  mark(*reducer, {5}, 10);
  EXPECT_EQ(issued(0), (std::vector<float>{15, 14}));
  EXPECT_EQ(issued(), 1u) << "the second bucket is not full";
  mark(*reducer, {3}, 10);
  EXPECT_EQ(issued(1), (std::vector<float>{13, 12}));
  EXPECT_EQ(issued(2), (std::vector<float>{11, 10}));
  for (const std::size_t bucket : {2u, 0u, 1u}) average(bucket, static_cast<float>(bucket));
  reducer->finish();
  for (std::size_t i = 0; i < kParameters; ++i) {
    const std::size_t bucket = 2 - i / 2;
    EXPECT_EQ(floats(reducer->gradient(i))[0], static_cast<float>(bucket));
  }
}

TEST_F(ReducerWiring, EachStepBeginsWithEmptyBuckets) {
  own_gradients = true;
  const auto reducer = make();
  for (std::size_t step = 0; step < 3; ++step) {
    mark(*reducer, {5}, 10);
    EXPECT_EQ(issued(), 3 * step) << "the mark of parameter 4 is of the step before";
    mark(*reducer, {1, 0, 3, 2, 4}, static_cast<float>(10 * step));
    for (std::size_t bucket = 0; bucket < 3; ++bucket) {
      EXPECT_EQ(issued(3 * step + bucket).size(), 2u);
      average(3 * step + bucket, static_cast<float>(100 * step + bucket));
    }
    EXPECT_EQ(gradients[5], 15.0F) << "the average comes in finish()";
    reducer->finish();
    for (std::size_t i = 0; i < kParameters; ++i) {
      const std::size_t expected = 100 * step + 2 - i / 2;
      EXPECT_EQ(gradients[i], static_cast<float>(expected)) << i;
    }
    EXPECT_EQ(reducer->stats().steps, step + 1);
  }
  EXPECT_EQ(issued(), 9u);
  EXPECT_EQ(reducer->stats().bytes, kParameters * sizeof(float));
  EXPECT_GT(reducer->stats().communication_seconds, 0);
}

TEST_F(ReducerWiring, AFailedBucketDoesNotHideThatAnotherIsStillInUse) {
  own_gradients = true;
  script.lives_on = true;  // as a backend whose operation cannot be stopped at once
  const auto reducer = make();
  mark_all(*reducer);
  ASSERT_TRUE(script.await_started(before + 3));
  auto finished =
      std::async(std::launch::async, [&] { return test::error_of([&] { reducer->finish(); }); });
  floats(script.operation(before).output)[0] = 99;  // half of an average
  script.end(before, failure(Code::unavailable, "rank 1 was lost"));
  script.end(before + 2, failure(Code::internal, "another"));
  EXPECT_NE(finished.wait_for(20ms), std::future_status::ready)
      << "the backend still writes into the second bucket";
  script.end(before + 1);
  EXPECT_TRUE(test::contains(finished.get(), "rank 1 was lost"));
  EXPECT_EQ(gradients[5], 15.0F) << "no average of a failed step is given out";
  EXPECT_EQ(reducer->stats().steps, 1u);
}

TEST_F(ReducerWiring, AStepAfterAFailedOneFailsWithTheFirstReason) {
  script.lives_on = true;
  const auto reducer = make();
  mark_all(*reducer);
  ASSERT_TRUE(script.await_started(before + 3));
  script.end(before, failure(Code::unavailable, "rank 1 was lost"));
  script.end(before + 1, failure(Code::internal, "another"));
  script.end(before + 2, failure(Code::internal, "another"));
  EXPECT_THROW(reducer->finish(), Unavailable);
  for (int step = 0; step < 2; ++step) {
    mark_all(*reducer);  // each may be marked once more
    EXPECT_TRUE(test::contains(test::error_of([&] { reducer->finish(); }), "rank 1 was lost"));
  }
  EXPECT_EQ(reducer->stats().steps, 3u);
  EXPECT_EQ(issued(), 3u) << "nothing is issued to a group that has failed";
}

TEST_F(ReducerWiring, UnusedParametersAreNamedAndEndTheGroup) {
  const auto reducer = make();
  const std::string all = test::error_of([&] { reducer->finish(); });
  EXPECT_TRUE(test::contains(all,
                             "6 of 6 parameters were not marked ready: 0 \"p0\", 1 \"p1\", 2 "
                             "\"p2\", 3 \"p3\", 4 \"p4\", ...;"))
      << all;
  mark(*reducer, {5}, 10);
  EXPECT_EQ(test::error_of([&] { reducer->finish(); }),
            "finish: 5 of 6 parameters were not marked ready: 0 \"p0\", 1 \"p1\", 2 \"p2\", 3 "
            "\"p3\", 4 \"p4\"; every parameter needs a gradient in every step");
  ASSERT_FALSE(script.aborts().empty());
  EXPECT_TRUE(test::contains(script.aborts()[0], "rank 0: finish: 6 of 6 parameters"));
}

TEST_F(ReducerWiring, AloneItGoesOnAfterAnUnusedParameter) {
  open(0, 1);
  const auto reducer = make();
  mark(*reducer, {5, 4, 3, 2, 0}, 10);
  EXPECT_THROW(reducer->finish(), InvalidArgument);
  EXPECT_TRUE(script.aborts().empty());
  mark(*reducer, {1}, 10);
  for (std::size_t bucket = 0; bucket < 3; ++bucket) average(bucket, 1);
  reducer->finish();
  EXPECT_EQ(reducer->stats().steps, 1u);
}

TEST_F(ReducerWiring, ItsEndAbortsTheGroupOnlyInAStep) {
  for (const bool in_step : {false, true}) {
    auto reducer = make();
    mark_all(*reducer);
    for (std::size_t bucket = 0; bucket < 3; ++bucket) average(bucket, 1);
    reducer->finish();
    if (in_step) mark(*reducer, {5, 4}, 10);
    reducer.reset();
    EXPECT_EQ(script.aborts().size(), in_step ? 1u : 0u);
  }
  EXPECT_TRUE(test::contains(script.aborts()[0],
                             "its reducer was destroyed during a step: 4 of 6 parameters"))
      << script.aborts()[0];
}

TEST_F(ReducerWiring, ItsEndWaitsForWhatIsInUse) {
  script.lives_on = true;
  auto reducer = make();
  mark(*reducer, {5, 4}, 10);
  ASSERT_TRUE(script.await_started(before + 1));
  auto ended = std::async(std::launch::async, [&] { reducer.reset(); });
  EXPECT_NE(ended.wait_for(20ms), std::future_status::ready);
  script.end(before);
  EXPECT_EQ(ended.wait_for(60s), std::future_status::ready);
}

TEST_F(ReducerWiring, TwoReducersOfAGroupKeepTheirOwnBuckets) {
  const auto first = make();
  const auto second = make();
  mark(*first, {5}, 10);
  mark(*second, {4}, 20);
  EXPECT_EQ(issued(), 0u);
  mark(*second, {5}, 20);
  EXPECT_EQ(issued(0), (std::vector<float>{25, 24}));
  mark(*first, {4}, 10);
  EXPECT_EQ(issued(1), (std::vector<float>{15, 14}));
  for (Reducer* const one : {first.get(), second.get()}) mark(*one, {3, 2, 1, 0}, 10);
  for (std::size_t number = 0; number < 6; ++number) average(number, static_cast<float>(number));
  first->finish();
  second->finish();
  EXPECT_EQ(floats(first->gradient(5))[0], 1.0F);
  EXPECT_EQ(floats(second->gradient(5))[0], 0.0F);
}

TEST_F(ReducerWiring, ARankGetsTheValuesOfTheBroadcastAndThenEmptyBuckets) {
  open(1, 2);
  const auto reducer = make();
  EXPECT_EQ(values, (std::vector<float>{600, 500, 400, 300, 200, 100}));
  for (std::size_t i = 0; i < kParameters; ++i) EXPECT_EQ(floats(reducer->gradient(i))[0], 0.0F);
  const std::size_t with = script.started();
  ReducerOptions options = kBucketOfTwo;
  options.broadcast_parameters = false;
  values.assign(kParameters, 3.0F);
  const auto quiet = make(options);
  EXPECT_EQ(script.started(), with + 1) << "only the comparison of the parameters";
  EXPECT_EQ(values, std::vector<float>(kParameters, 3.0F));
}

TEST_F(ReducerWiring, RankZeroKeepsAndSendsItsValues) {
  values = {1, 2, 3, 4, 5, 6};
  std::vector<std::vector<float>> sent;
  script.answers = [&](const Operation& operation) {
    const bool sends = operation.collective == Collective::broadcast;
    const Tensor& tensor = operation.output;
    if (sends) sent.emplace_back(floats(tensor), floats(tensor) + tensor.count);
    return answer(operation);
  };
  const auto reducer = make();
  EXPECT_EQ(sent, (std::vector<std::vector<float>>{{6, 5}, {4, 3}, {2, 1}}));
  EXPECT_EQ(values, (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(floats(reducer->gradient(5))[0], 0.0F);
}

TEST(ReducerStats, OverlapIsTheShareThatDidNotBlock) {
  EXPECT_EQ((ReducerStats{.communication_seconds = 2, .exposed_seconds = 0.5}).overlap(), 0.75);
  EXPECT_EQ((ReducerStats{.communication_seconds = 2, .exposed_seconds = 3}).overlap(), 0);
  EXPECT_EQ((ReducerStats{.communication_seconds = 0, .exposed_seconds = 1}).overlap(), 0);
}

}  // namespace
}  // namespace c10dd::ddp
