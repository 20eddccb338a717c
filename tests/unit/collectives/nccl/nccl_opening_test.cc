// SPDX-License-Identifier: Apache-2.0
// How groups over NCCL are opened: communicators, ids, splits, ends.
#include <algorithm>
#include <cstdlib>
#include <future>
#include <set>

#include "collectives/backend.h"
#include "collectives/nccl/identity.h"
#include "tests/unit/collectives/nccl/nccl_ranks.h"

namespace c10dd {
namespace {

using namespace std::chrono_literals;
using test::await;
using test::contains;
using test::Groups;
using test::on_device;
using test::open_groups;
using test::over_nccl;
using test::run_ranks;

class NcclOpening : public test::NcclTest {
 protected:
  void SetUp() override {
    NcclTest::SetUp();
    before_ = nccl.made().size();
  }
  std::vector<stand_in::MadeComm> made() {
    auto all = nccl.made();
    all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(before_));
    return all;
  }

 private:
  std::size_t before_ = 0;
};

void sum_works(const Groups& groups) {
  run_ranks(static_cast<Rank>(groups.size()), [&](Rank rank) {
    if (!groups[rank]) return;
    std::vector<float> values(4, 1.0f);
    groups[rank]->all_reduce(tensor_of(values));
    EXPECT_EQ(values[0], static_cast<float>(groups[rank]->size()));
  });
}

TEST_F(NcclOpening, CommunicatorsAreNonBlockingAndHaveTheNameOfTheGroup) {
  const Groups groups = open_groups(2, over_nccl());
  ASSERT_EQ(made().size(), 4u);
  for (const stand_in::MadeComm& one : made()) {
    EXPECT_EQ(one.blocking, 0);
    EXPECT_EQ(one.device, one.rank);
    EXPECT_EQ(one.name, one.ids == 0 ? "world messages" : "world");
  }
  EXPECT_EQ(groups[1]->describe(), "NCCL 2.28.9 on cuda:1 (stand-in, 0000:01:00.0)");
  EXPECT_EQ(groups[0]->backend(), "nccl");
}

/// Counts what a rank asks of its bootstrap.
class BootstrapOfAll final : public Bootstrap {
 public:
  BootstrapOfAll(std::shared_ptr<test::ThreadExchange> point, Rank rank)
      : inner_(std::move(point), rank) {}
  std::vector<std::string> transpose(std::vector<std::string>, Duration) override {
    ADD_FAILURE() << "parts for each rank";
    return {};
  }
  std::vector<std::string> all(const World& world, std::string part, Duration timeout) override {
    ++calls;
    bytes = part.size();
    return inner_.transpose(std::vector<std::string>(world.size, part), timeout);
  }
  std::string local_address() const override { return inner_.local_address(); }

  int calls = 0;
  std::size_t bytes = 0;

 private:
  test::ThreadBootstrap inner_;
};

TEST_F(NcclOpening, EachRankSendsOnePartAndOnlyTheFirstOfABlockSendsAnId) {
  const auto point = std::make_shared<test::ThreadExchange>(3);
  const int ids = nccl.ids_made;
  run_ranks(3, [&](Rank rank) {
    const auto bootstrap = std::make_shared<BootstrapOfAll>(point, rank);
    const auto group = ProcessGroup::open(bootstrap, {.rank = rank, .size = 3}, over_nccl());
    EXPECT_EQ(bootstrap->calls, 1);
    if (rank == 0) {
      EXPECT_GE(bootstrap->bytes, 128u);
    }
    if (rank != 0) {
      EXPECT_LT(bootstrap->bytes, 128u);
    }
    group->barrier();
  });
  EXPECT_EQ(nccl.ids_made, ids + 1);
  for (const stand_in::MadeComm& one : made()) EXPECT_LE(one.ids, 1);
}

/// Returns the block of a rank by NCCL's formula: the first blocks have one rank more.
Rank block_of(Rank rank, Rank size, Rank blocks) {
  const Rank more = size % blocks;
  const Rank less = size / blocks;
  const Rank limit = more * (less + 1);
  return rank < limit ? rank / (less + 1) : (rank - limit) / less + more;
}

TEST_F(NcclOpening, ThereIsAnIdPer256RanksAndItsBlockBeginsAtItsMaker) {
  using collectives::nccl::first_of_block;
  using collectives::nccl::id_count;
  EXPECT_EQ(id_count(1), 1u);
  EXPECT_EQ(id_count(256), 1u);
  EXPECT_EQ(id_count(257), 2u);
  EXPECT_EQ(id_count(16'384), 64u);
  for (const Rank size : {1u, 2u, 256u, 257u, 511u, 513u, 1000u, 16'384u}) {
    const Rank blocks = id_count(size);
    for (Rank block = 0; block < blocks; ++block) {
      const Rank first = first_of_block(block, size);
      EXPECT_EQ(block_of(first, size, blocks), block) << size;
      if (first > 0) {
        EXPECT_EQ(block_of(first - 1, size, blocks), block - 1) << size;
      }
    }
  }
}

TEST_F(NcclOpening, SplitUsesNcclsSplitAndNoId) {
  const Groups world = open_groups(5, over_nccl());
  const int ids = nccl.ids_made;
  Groups parts(5);
  run_ranks(5, [&](Rank rank) {
    const std::int32_t color = rank == 4 ? -1 : static_cast<std::int32_t>(rank % 2);
    parts[rank] = world[rank]->split(color, -static_cast<std::int32_t>(rank));
  });
  EXPECT_EQ(nccl.ids_made, ids);
  EXPECT_EQ(parts[4], nullptr);
  EXPECT_EQ(parts[0]->rank(), 1u);  // the order of the keys
  EXPECT_EQ(parts[2]->rank(), 0u);
  EXPECT_EQ(parts[3]->size(), 2u);
  EXPECT_EQ(parts[2]->describe(), world[2]->describe());
  sum_works(parts);
  run_ranks(5, [&](Rank rank) {
    if (!parts[rank]) return;
    std::vector<std::int32_t> value = {static_cast<std::int32_t>(rank)};
    std::vector<std::int32_t> all(2);
    parts[rank]->all_gather_single(on_device(all, rank), on_device(value, rank))->wait_on_host();
    const auto own = static_cast<std::int32_t>(rank % 2);
    EXPECT_EQ(all, (std::vector<std::int32_t>{own + 2, own}));
    if (parts[rank]->rank() == 0) {
      parts[rank]->send(on_device(value, rank), 1)->wait_on_host();
    } else {
      parts[rank]->recv(on_device(value, rank), 0)->wait_on_host();
      EXPECT_EQ(value[0], own + 2);
    }
  });
}

TEST_F(NcclOpening, TheLimitOfConnectingBeginsAfterTheExchange) {
  const auto point = std::make_shared<test::ThreadExchange>(2);
  GroupOptions options = over_nccl();
  options.open_timeout = 2s;
  nccl.never_connects = true;
  std::promise<void> waits;
  std::jthread connects([&, began = waits.get_future().share()] {
    began.wait();
    EXPECT_TRUE(await([&] { return made().size() == 2; }));
    const auto connected = std::chrono::steady_clock::now() + 1s;
    EXPECT_TRUE(await([&] { return std::chrono::steady_clock::now() > connected; }));
    nccl.never_connects = false;
  });
  run_ranks(2, [&](Rank rank) {
    if (rank == 1) {
      waits.set_value();
      const auto late = std::chrono::steady_clock::now() + 1500ms;
      EXPECT_TRUE(await([&] { return std::chrono::steady_clock::now() > late; }));
    }
    const auto group = ProcessGroup::open(std::make_shared<test::ThreadBootstrap>(point, rank),
                                          {.rank = rank, .size = 2}, options);
    group->barrier();
  });
}

/// Fails to exchange anything.
class BrokenBootstrap final : public Bootstrap {
 public:
  std::vector<std::string> transpose(std::vector<std::string>, Duration) override {
    throw Unavailable("the exchange is broken");
  }
  std::string local_address() const override { return "127.0.0.1"; }
};

TEST_F(NcclOpening, APartThatCannotMeetDoesNotHoldUpTheOthersInASplit) {
  const auto point = std::make_shared<test::ThreadExchange>(4);
  const auto other = std::make_shared<test::ThreadExchange>(2);
  run_ranks(4, [&](Rank rank) {
    const World world{.rank = rank, .size = 4};
    auto whole = collectives::open_backend(
        {world, over_nccl(), std::make_shared<test::ThreadBootstrap>(point, rank)});
    ASSERT_TRUE(whole);
    std::shared_ptr<Bootstrap> bootstrap = std::make_shared<BrokenBootstrap>();
    if (rank >= 2) bootstrap = std::make_shared<test::ThreadBootstrap>(other, rank - 2);
    const collectives::BackendSetup part{
        {.rank = rank % 2, .size = 2, .name = "part"}, over_nccl(), bootstrap};
    const auto deadline = std::chrono::steady_clock::now() + 20s;
    const auto split =
        (*whole)->split(&part, static_cast<int>(rank / 2), static_cast<int>(rank % 2), deadline);
    EXPECT_EQ(split.has_value(), rank >= 2);
  });
}

TEST_F(NcclOpening, SplitIntoAnotherBackendMakesItsOwnConnections) {
  const Groups world = open_groups(3, over_nccl());
  const std::size_t comms = made().size();
  Groups parts(3);
  run_ranks(3, [&](Rank rank) {
    parts[rank] = world[rank]->split(rank == 2 ? -1 : 0, 0, {.backend = "loopback"});
  });
  EXPECT_EQ(made().size(), comms);
  EXPECT_EQ(parts[0]->backend(), "loopback");
  sum_works(parts);
}

TEST_F(NcclOpening, OpensWhileNcclTakesItsTime) {
  nccl.polls_in_progress = 20;
  const Groups groups = open_groups(3, over_nccl());
  sum_works(groups);
}

TEST_F(NcclOpening, AnEndedGroupIsFinalizedAndNotAborted) {
  const int aborts = nccl.aborts_begun;
  const int finalized = nccl.finalized;
  {
    const Groups groups = open_groups(2, over_nccl());
    sum_works(groups);
  }
  EXPECT_TRUE(await([&] { return nccl.live_comms == 0; }));
  EXPECT_EQ(nccl.aborts_begun, aborts);
  EXPECT_EQ(nccl.finalized, finalized + 4);
}

TEST_F(NcclOpening, ManyGroupsLeaveNothingBehind) {
  for (int round = 0; round < 50; ++round) sum_works(open_groups(2, over_nccl()));
  EXPECT_TRUE(await([&] { return nccl.live_comms == 0; }));
}

TEST_F(NcclOpening, OpeningAGroupInACallbackFailsAtOnce) {
  const Groups groups = open_groups(1, over_nccl());
  std::vector<float> values(4);
  std::promise<std::string> error;
  std::promise<void> go;
  // The callback runs on the worker's thread, because the operation ends after on_end().
  stand_in::put_on_default_stream(0, [opened = go.get_future().share()] { opened.wait(); });
  const WorkPtr work = groups[0]->all_reduce(on_device(values, 0), ReduceOp::sum, {.async = true});
  work->on_end([&](Work&) {
    error.set_value(test::error_of([] {
      ProcessGroup::open(
          std::make_shared<test::ThreadBootstrap>(std::make_shared<test::ThreadExchange>(1), 0),
          {.rank = 0, .size = 1}, over_nccl());
    }));
  });
  go.set_value();
  const std::string text = error.get_future().get();
  EXPECT_TRUE(contains(text, "cannot be opened in a Work callback")) << text;
}

TEST_F(NcclOpening, TheExitWaitsForAGroupThatWasJustDestroyed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        // Registered before the group is there, so called after the handlers of the module.
        std::atexit([] { std::_Exit(stand_in::nccl_control().live_comms == 0 ? 0 : 1); });
        Groups groups = open_groups(2, over_nccl());
        nccl.polls_in_progress = 50;
        groups.clear();
        std::exit(2);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace c10dd
