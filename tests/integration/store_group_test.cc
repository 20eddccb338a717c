// SPDX-License-Identifier: Apache-2.0
// Process groups whose ranks exchange their addresses through a store, over every store that
// several processes can open. The ranks are threads, each with a store of its own.
#include <gtest/gtest.h>

#include <vector>

#include "collectives/process_group.h"
#include "tests/unit/client/store_kinds.h"
#include "tests/unit/collectives/thread_ranks.h"

namespace c10dd {
namespace {

/// Each message of an exchange is a key, which its receiver waits for.
class StoreBootstrap final : public Bootstrap {
 public:
  StoreBootstrap(std::shared_ptr<Store> store, Rank rank) : store_(std::move(store)), rank_(rank) {}

  std::vector<std::string> transpose(std::vector<std::string> parts, Duration timeout) override {
    const std::string round = "exchange" + std::to_string(rounds_++);
    const auto key = [&](std::size_t from, std::size_t to) {
      return round + "/" + std::to_string(from) + "/" + std::to_string(to);
    };
    for (std::size_t to = 0; to < parts.size(); ++to) store_->set(key(rank_, to), parts[to]);
    std::vector<std::string> mine;
    for (std::size_t from = 0; from < parts.size(); ++from) {
      mine.push_back(store_->get(key(from, rank_), timeout));
    }
    return mine;
  }
  std::string local_address() const override { return "127.0.0.1"; }

 private:
  const std::shared_ptr<Store> store_;
  const Rank rank_;
  int rounds_ = 0;
};

class StoreGroup : public ::testing::TestWithParam<test::StoreKind> {};

INSTANTIATE_TEST_SUITE_P(Stores, StoreGroup, ::testing::ValuesIn(test::store_kinds()),
                         [](const auto& kind) { return kind.param.name; });

TEST_P(StoreGroup, GlooFindsItsRanks) {
  if (const std::string absent = GetParam().absent(); !absent.empty()) GTEST_SKIP() << absent;
  constexpr Rank kSize = 3;
  const auto first = GetParam().make();
  std::vector<std::shared_ptr<Store>> stores;
  for (Rank rank = 0; rank < kSize; ++rank) {
    stores.push_back(GetParam().again ? GetParam().again() : first);
  }
  test::run_ranks(kSize, [&](Rank rank) {
    const auto group =
        ProcessGroup::open(std::make_shared<StoreBootstrap>(stores[rank], rank),
                           {.rank = rank, .size = kSize, .name = "store"}, {.backend = "gloo"});
    std::vector<float> values(1'000, static_cast<float>(rank + 1));
    group->all_reduce(tensor_of(values));
    EXPECT_EQ(values, std::vector<float>(1'000, 6.0F));
  });
}

}  // namespace
}  // namespace c10dd
