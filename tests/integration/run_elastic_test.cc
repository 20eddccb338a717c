// SPDX-License-Identifier: Apache-2.0
// run_elastic by itself, with the real daemon; the ranks are threads over loopback. A training over
// Gloo with processes that die is in elastic_test.py.
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "client/client.h"
#include "ddp/elastic.h"
#include "tests/integration/daemon_process.h"

namespace c10dd {
namespace {

using namespace std::chrono_literals;
using ddp::ElasticContext;
using ddp::ElasticOptions;
using ddp::ElasticState;

class RunElastic : public testing::Test {
 protected:
  void SetUp() override { daemon_.start(); }

  std::shared_ptr<Membership> join(std::uint32_t min, std::uint32_t max, std::uint64_t step = 0,
                                   std::chrono::seconds timeout = 30s) {
    RendezvousOptions options;
    options.min = min;
    options.max = max;
    options.last_call = 1s;
    options.ttl = 30s;  // longer than a machine stands still
    options.timeout = timeout;
    options.step = step;
    return Client::connect("c10dd://" + daemon_.address() + "/job")->rendezvous(options);
  }
  static ElasticOptions over_loopback(std::uint32_t fruitless_max = 3) {
    ElasticOptions options;
    options.group.backend = "loopback";
    options.group.open_timeout = 20s;
    options.fruitless_max = fruitless_max;
    return options;
  }

  test::DaemonProcess daemon_{"memory:"};
};

/// A member's parameters: one number.
struct Trainer {
  float value = 0;
  ElasticState state{{{&value, 1}}, 0};
};

TEST_F(RunElastic, TheStateIsThatOfTheOneThatHasGotFurthest) {
  const auto train = [&](float value, std::uint64_t step) {
    Trainer trainer;
    trainer.value = value;
    trainer.state.step = step;
    ddp::run_elastic(
        join(3, 3, step), trainer.state, [](ElasticContext&) { return true; }, over_loopback());
    return std::pair(trainer.value, trainer.state.step);
  };
  auto newcomer = std::async(std::launch::async, train, 0.0F, 0);
  auto furthest = std::async(std::launch::async, train, 7.0F, 7);
  EXPECT_EQ(train(5, 5), std::pair(7.0F, std::uint64_t{7}));
  EXPECT_EQ(furthest.get(), std::pair(7.0F, std::uint64_t{7}));
  EXPECT_EQ(newcomer.get(), std::pair(7.0F, std::uint64_t{7}));
}

TEST_F(RunElastic, OfEquallyFarMembersTheLowestRankGivesTheState) {
  std::vector<Member> members(3);
  for (std::uint32_t rank = 0; rank < 3; ++rank) members[rank].rank = rank;
  members[1].step = members[2].step = 4;
  EXPECT_EQ(ddp::state_source(members), 1U);
  EXPECT_EQ(ddp::state_source({}), 0U);
}

TEST_F(RunElastic, WhatABodyThrowsIsTheReasonAndTheOthersGoOn) {
  auto failing = std::async(std::launch::async, [&] {
    Trainer trainer;
    ddp::run_elastic(
        join(1, 2), trainer.state,
        [](ElasticContext&) -> bool { throw std::runtime_error("out of memory"); },
        over_loopback());
  });
  Trainer trainer;
  std::vector<std::uint32_t> sizes;
  std::string why;
  ddp::run_elastic(
      join(1, 2), trainer.state,
      [&](ElasticContext& context) {
        sizes.push_back(context.generation.size);
        why = context.generation.reason;
        if (context.generation.size == 2)
          context.group.barrier()->wait();  // the other one never comes
        return true;
      },
      over_loopback());
  EXPECT_EQ(sizes, (std::vector<std::uint32_t>{2, 1}));
  try {
    failing.get();
    ADD_FAILURE() << "it has thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "out of memory");
  }
  EXPECT_NE(why.find("has failed: out of memory"), std::string::npos) << why;
}

TEST_F(RunElastic, ABodyMayAskForTheNextGeneration) {
  const auto train = [&] {
    Trainer trainer;
    std::vector<std::uint64_t> generations;
    ddp::run_elastic(
        join(2, 2), trainer.state,
        [&](ElasticContext& context) {
          generations.push_back(context.generation.number);
          trainer.value += 1;
          ++trainer.state.step;
          context.group.barrier()->wait();
          return generations.size() == 3;
        },
        over_loopback(1));
    return std::tuple(trainer.value, trainer.state.step, generations.size());
  };
  auto other = std::async(std::launch::async, train);
  const auto expected = std::tuple(3.0F, std::uint64_t{3}, std::size_t{3});
  EXPECT_EQ(train(), expected);
  EXPECT_EQ(other.get(), expected);
}

TEST_F(RunElastic, AStepThatAMemberOnlyReceivesIsNoProgress) {
  std::atomic<int> tries = 0;
  auto newcomer = std::async(std::launch::async, [&] {
    Trainer trainer;
    ddp::run_elastic(
        join(1, 2), trainer.state,
        [&](ElasticContext& context) -> bool {
          while (context.generation.size == 1 && !context.should_regroup()) {
            std::this_thread::sleep_for(10ms);
          }
          if (context.generation.size == 1) return false;
          EXPECT_EQ(trainer.state.step, 7u);
          ++tries;
          throw Error(Code::aborted, "the generation has ended");
        },
        over_loopback(1));
  });
  Trainer trainer;
  trainer.state.step = 7;
  ddp::run_elastic(
      join(1, 2, 7), trainer.state,
      [&](ElasticContext& context) {
        if (context.generation.size == 2) context.group.barrier()->wait();  // fails
        while (tries == 0 && !context.should_regroup()) std::this_thread::sleep_for(10ms);
        return tries > 0;
      },
      over_loopback(20));
  EXPECT_THROW(newcomer.get(), Error);
  EXPECT_EQ(tries, 1) << "fruitless_max is 1";
}

TEST_F(RunElastic, GivesUpAfterGenerationsWithoutAStep) {
  std::atomic<bool> over = false;
  auto joining = std::async(std::launch::async, [&] { return join(2, 2, 0, 2s); });
  Trainer trainer;
  const auto own = join(2, 2);
  // The other one never opens the group: it only asks for the next generation, again and again.
  auto other = std::async(std::launch::async, [&, membership = joining.get()] {
    while (!over) {
      std::this_thread::sleep_for(50ms);
      try {
        membership->next();
      } catch (const Error&) {
        return;  // alone at last
      }
    }
  });
  try {
    ddp::run_elastic(
        own, trainer.state, [](ElasticContext&) { return true; }, over_loopback(3));
    ADD_FAILURE() << "no generation was of any use";
  } catch (const Error& error) {
    EXPECT_TRUE(error.code() == Code::aborted || error.code() == Code::stale_generation)
        << error.what();
  }
  EXPECT_EQ(own->generation().number, 3U);
  over = true;
}

}  // namespace
}  // namespace c10dd
