// SPDX-License-Identifier: Apache-2.0
// The reducer over loopback, ranks as threads.
#include "ddp/reducer.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include "client/errors.h"
#include "tests/unit/collectives/thread_ranks.h"

namespace c10dd::ddp {
namespace {

using test::open_groups;
using test::run_ranks;

constexpr Rank kSize = 3;
constexpr double kFloatMb = 4.0 / (1 << 20);  // the cap that holds one float

/// Parameters of one rank with the memory of their values.
struct Model {
  explicit Model(const std::vector<std::size_t>& counts, float fill) {
    for (std::size_t i = 0; i < counts.size(); ++i) {
      memory.push_back(
          std::make_unique<std::vector<float>>(counts[i], fill + static_cast<float>(i)));
      parameters.push_back({.name = "layer" + std::to_string(i),
                            .value = tensor_of(*memory.back()),
                            .shape = {counts[i]}});
    }
  }
  std::vector<std::unique_ptr<std::vector<float>>> memory;
  std::vector<Parameter> parameters;
};

float* floats(const Tensor& tensor) { return static_cast<float*>(tensor.data); }

void fill(const Tensor& tensor, float value) { std::fill_n(floats(tensor), tensor.count, value); }

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::vector<std::shared_ptr<ProcessGroup>> loopback(Rank size, const GroupOptions& base = {}) {
  GroupOptions options = base;
  options.backend = "loopback";
  return open_groups(size, options);
}

TEST(Reducer, ConstructionGivesEveryRankTheValuesOfRankZero) {
  const auto groups = loopback(kSize);
  run_ranks(kSize, [&](Rank rank) {
    Model model({10, 1000, 3}, static_cast<float>(100 * (rank + 1)));
    const Reducer reducer(*groups[rank], model.parameters,
                          {.first_bucket_cap_mb = kFloatMb, .bucket_cap_mb = 5 * kFloatMb});
    EXPECT_EQ(reducer.buckets().size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(model.memory[i]->front(), 100 + static_cast<float>(i));
      EXPECT_EQ(model.memory[i]->back(), 100 + static_cast<float>(i));
      EXPECT_EQ(floats(reducer.gradient(i))[0], 0.0f);
    }
  });
}

TEST(Reducer, FinishLeavesTheAverageInTheViewsStepAfterStep) {
  const auto groups = loopback(kSize);
  run_ranks(kSize, [&](Rank rank) {
    Model model({10, 20, 30}, 0);
    Reducer reducer(*groups[rank], model.parameters,
                    {.first_bucket_cap_mb = 30 * kFloatMb, .bucket_cap_mb = 100 * kFloatMb});
    ASSERT_EQ(reducer.buckets().size(), 2u);
    for (int step = 0; step < 5; ++step) {
      for (std::size_t i = 3; i-- > 0;) {
        fill(reducer.gradient(i), static_cast<float>(rank * 3 + i * 10) + static_cast<float>(step));
        reducer.mark_ready(i);
      }
      reducer.finish();
      for (std::size_t i = 0; i < 3; ++i) {
        const float mean = static_cast<float>(3 + i * 10) + static_cast<float>(step);
        EXPECT_FLOAT_EQ(floats(reducer.gradient(i))[0], mean);
        EXPECT_FLOAT_EQ(floats(reducer.gradient(i))[reducer.gradient(i).count - 1], mean);
      }
    }
    const ReducerStats stats = reducer.stats();
    EXPECT_EQ(stats.steps, 5u);
    EXPECT_EQ(stats.buckets, 2u);
    EXPECT_EQ(stats.bytes, 60 * sizeof(float));
    EXPECT_GT(stats.communication_seconds, 0);
    EXPECT_GE(stats.overlap(), 0);
    EXPECT_LE(stats.overlap(), 1);
  });
}

TEST(Reducer, GradientsOfTheTrainerAreCopiedInAndBack) {
  const auto groups = loopback(2);
  run_ranks(2, [&](Rank rank) {
    Model model({4, 4}, 0);
    std::vector<float> own(4, rank == 0 ? 1.0f : 3.0f);
    model.parameters[1].gradient = tensor_of(own);
    Reducer reducer(*groups[rank], model.parameters);
    EXPECT_EQ(reducer.gradient(1).data, own.data());
    reducer.mark_ready(1);
    fill(reducer.gradient(0), rank == 0 ? 4.0f : 8.0f);
    reducer.mark_ready(0);
    reducer.finish();
    EXPECT_EQ(own, std::vector<float>(4, 2.0f));
    EXPECT_EQ(floats(reducer.gradient(0))[3], 6.0f);
  });
}

TEST(Reducer, RanksMayFinishGradientsInDifferentOrders) {
  const auto groups = loopback(kSize);
  run_ranks(kSize, [&](Rank rank) {
    Model model({5, 5, 5, 5}, 0);
    Reducer reducer(*groups[rank], model.parameters,
                    {.first_bucket_cap_mb = 5 * kFloatMb, .bucket_cap_mb = 5 * kFloatMb});
    for (std::size_t i = 0; i < 4; ++i) {
      const std::size_t parameter = (i + rank) % 4;
      fill(reducer.gradient(parameter), static_cast<float>(parameter));
      reducer.mark_ready(parameter);
    }
    reducer.finish();
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(floats(reducer.gradient(i))[4], static_cast<float>(i));
    }
  });
}

/// Counts finished all_reduces, so that a test can wait for one.
class FinishedHook final : public Hook {
 public:
  void finished(const CollectiveCall& call) noexcept override {
    if (call.operation.collective != Collective::all_reduce) return;
    const std::lock_guard lock(mutex_);
    ++finished_;
    changed_.notify_all();
  }
  void await(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return finished_ >= count; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int finished_ = 0;
};

TEST(Reducer, BucketIsReducedWhileBackwardIsStillRunning) {
  const auto hook = std::make_shared<FinishedHook>();
  const auto groups = loopback(2, {.hooks = {hook}});
  run_ranks(2, [&](Rank rank) {
    Model model({5, 5}, 0);
    Reducer reducer(*groups[rank], model.parameters, {.first_bucket_cap_mb = 5 * kFloatMb});
    fill(reducer.gradient(1), 1.0f);
    reducer.mark_ready(1);
    hook->await(2);  // on both ranks, with parameter 0 still to come
    fill(reducer.gradient(0), 2.0f);
    reducer.mark_ready(0);
    reducer.finish();
    EXPECT_EQ(floats(reducer.gradient(0))[0], 2.0f);
    EXPECT_EQ(floats(reducer.gradient(1))[0], 1.0f);
  });
}

TEST(Reducer, GradientsMayBecomeReadyOnManyThreads) {
  const auto groups = loopback(2);
  run_ranks(2, [&](Rank rank) {
    Model model(std::vector<std::size_t>(16, 8), 0);
    Reducer reducer(*groups[rank], model.parameters,
                    {.first_bucket_cap_mb = 16 * kFloatMb, .bucket_cap_mb = 32 * kFloatMb});
    for (int step = 0; step < 20; ++step) {
      run_ranks(4, [&](Rank thread) {
        for (std::size_t i = thread; i < 16; i += 4) {
          fill(reducer.gradient(i), static_cast<float>(i + rank));
          reducer.mark_ready(i);
        }
      });
      reducer.finish();
      for (std::size_t i = 0; i < 16; ++i) {
        EXPECT_EQ(floats(reducer.gradient(i))[7], static_cast<float>(i) + 0.5f);
      }
    }
  });
}

TEST(Reducer, ParameterMarkedTwiceIsNamed) {
  const auto groups = loopback(1);
  Model model({5, 5}, 0);
  Reducer reducer(*groups[0], model.parameters);
  reducer.mark_ready(1);
  try {
    reducer.mark_ready(1);
    ADD_FAILURE() << "marked twice";
  } catch (const InvalidArgument& error) {
    EXPECT_TRUE(contains(error.what(), "1 \"layer1\"")) << error.what();
  }
  EXPECT_THROW(reducer.mark_ready(2), InvalidArgument);
  EXPECT_THROW(reducer.gradient(2), InvalidArgument);
  reducer.mark_ready(0);
  reducer.finish();
}

TEST(Reducer, UnmarkedParameterIsNamedAndMayStillCome) {
  const auto groups = loopback(1);
  Model model({5, 5, 5}, 0);
  Reducer reducer(*groups[0], model.parameters, {.first_bucket_cap_mb = 5 * kFloatMb});
  reducer.mark_ready(2);
  reducer.mark_ready(0);
  try {
    reducer.finish();
    ADD_FAILURE() << "finished without parameter 1";
  } catch (const InvalidArgument& error) {
    EXPECT_TRUE(contains(error.what(), "1 of 3 parameters")) << error.what();
    EXPECT_TRUE(contains(error.what(), "1 \"layer1\"")) << error.what();
  }
  reducer.mark_ready(1);
  reducer.finish();
  EXPECT_EQ(reducer.stats().steps, 1u);
}

/// Calls finish() on each rank of two, and returns what they threw, and the longest time.
std::pair<std::vector<std::string>, std::chrono::duration<double>> failures_of(
    const std::function<void(Rank, Reducer&)>& step) {
  const auto groups = loopback(2);
  std::vector<std::string> texts(2);
  const auto begin = std::chrono::steady_clock::now();
  run_ranks(2, [&](Rank rank) {
    Model model({5, 5}, 0);
    try {
      Reducer reducer(*groups[rank], model.parameters, {.first_bucket_cap_mb = 5 * kFloatMb});
      step(rank, reducer);
    } catch (const std::exception& error) {
      texts[rank] = error.what();
    }
  });
  return {texts, std::chrono::steady_clock::now() - begin};
}

TEST(Reducer, AnUnmarkedParameterOfOneRankIsToldToAllAtOnce) {
  const auto [texts, time] = failures_of([](Rank rank, Reducer& reducer) {
    reducer.mark_ready(1);
    if (rank == 0) reducer.mark_ready(0);
    reducer.finish();
  });
  EXPECT_TRUE(contains(texts[1], "finish: 1 of 2 parameters were not marked ready: 0 \"layer0\""))
      << texts[1];
  EXPECT_TRUE(contains(texts[0], "rank 1: finish: 1 of 2 parameters")) << texts[0];
  EXPECT_LT(time, std::chrono::seconds(30)) << "the others wait for their time-out";
}

TEST(Reducer, AnExceptionInAStepOfOneRankIsToldToAllAtOnce) {
  const auto [texts, time] = failures_of([](Rank rank, Reducer& reducer) {
    reducer.mark_ready(1);
    if (rank == 1) throw std::runtime_error("out of memory");
    reducer.mark_ready(0);
    reducer.finish();
  });
  EXPECT_EQ(texts[1], "out of memory");
  EXPECT_TRUE(
      contains(texts[0], "rank 1: its reducer was destroyed during a step: 1 of 2 parameters"))
      << texts[0];
  EXPECT_LT(time, std::chrono::seconds(30));
}

TEST(Reducer, RankWithAnotherModelIsNamedOnEveryRank) {
  struct Case {
    std::vector<std::size_t> counts;
    std::string says;
  };
  for (const Case& other :
       {Case{{5, 6, 7}, "the model has 3 parameters on rank 1, but 2 on rank 0"},
        Case{{5, 9}, "rank 1 differ from rank 0, first in parameter 1"}}) {
    const auto groups = loopback(kSize);
    run_ranks(kSize, [&](Rank rank) {
      Model model(rank == 1 ? other.counts : std::vector<std::size_t>{5, 6}, 0);
      try {
        const Reducer reducer(*groups[rank], model.parameters);
        ADD_FAILURE() << "rank " << rank << " did not notice";
      } catch (const InvalidArgument& error) {
        EXPECT_TRUE(contains(error.what(), other.says)) << error.what();
      }
    });
  }
}

TEST(Reducer, FailedCollectiveSurfacesInFinish) {
  const auto groups = loopback(2);
  std::vector<std::unique_ptr<Model>> models;
  std::vector<std::unique_ptr<Reducer>> reducers(2);
  for (int i = 0; i < 2; ++i) models.push_back(std::make_unique<Model>(std::vector{5ul, 5ul}, 0.f));
  run_ranks(2, [&](Rank rank) {
    reducers[rank] = std::make_unique<Reducer>(*groups[rank], models[rank]->parameters);
  });
  reducers[0]->mark_ready(1);
  reducers[0]->mark_ready(0);
  groups[1]->abort("drill");
  EXPECT_THROW(reducers[0]->finish(), Aborted);
  reducers[0]->mark_ready(1);
  reducers[0]->mark_ready(0);
  EXPECT_THROW(reducers[0]->finish(), Aborted);
}

TEST(Reducer, BadOptionsAreRefused) {
  const auto groups = loopback(1);
  Model model({5}, 0);
  EXPECT_THROW(Reducer(*groups[0], model.parameters, {.bucket_cap_mb = 0}), InvalidArgument);
  EXPECT_THROW(Reducer(*groups[0], model.parameters, {.bucket_cap_mb = -1}), InvalidArgument);
  for (const auto& shape : std::vector<std::vector<std::size_t>>{{}, {7}, {5, 2}, {0}}) {
    model.parameters[0].shape = shape;
    EXPECT_THROW(Reducer(*groups[0], model.parameters), InvalidArgument) << shape.size();
  }
  model.parameters[0].shape = {5, ~std::size_t{0}, ~std::size_t{0}};
  EXPECT_THROW(Reducer(*groups[0], model.parameters), InvalidArgument);
  model.parameters[0].shape = {1, 5};
  EXPECT_NO_THROW(Reducer(*groups[0], model.parameters));
  std::vector<std::int32_t> integers(5);
  EXPECT_THROW(Reducer(*groups[0], {{"w", tensor_of(integers), {5}}}), InvalidArgument);
  std::vector<float> small(3);
  model.parameters[0].gradient = tensor_of(small);
  EXPECT_THROW(Reducer(*groups[0], model.parameters), InvalidArgument);
}

}  // namespace
}  // namespace c10dd::ddp
