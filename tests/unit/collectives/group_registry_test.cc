// SPDX-License-Identifier: Apache-2.0
// Aborts all groups of a name and generation in this process.
#include "collectives/group_registry.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "client/errors.h"
#include "tests/unit/collectives/thread_ranks.h"

namespace c10dd {
namespace {

using namespace std::chrono_literals;
using test::run_ranks;

constexpr Rank kPair = 2;
using test::Groups;

Groups open_world(const std::string& name, std::uint64_t generation) {
  const auto point = std::make_shared<test::ThreadExchange>(kPair);
  Groups groups(kPair);
  run_ranks(kPair, [&](Rank rank) {
    groups[rank] = ProcessGroup::open(
        std::make_shared<test::ThreadBootstrap>(point, rank),
        World{.rank = rank, .size = kPair, .generation = generation, .name = name},
        {.backend = "loopback", .timeout = 60s});
  });
  return groups;
}

Groups split_all(const Groups& parents) {
  Groups children(kPair);
  run_ranks(kPair, [&](Rank rank) { children[rank] = parents[rank]->split(0); });
  return children;
}

/// Returns the text with which a barrier of the group fails, or "works".
std::string outcome(const Groups& groups) {
  std::vector<std::string> texts(kPair, "works");
  run_ranks(kPair, [&](Rank rank) {
    try {
      groups[rank]->barrier();
    } catch (const Aborted& error) {
      texts[rank] = error.what();
    }
  });
  EXPECT_EQ(texts[0], texts[1]);
  return texts[0];
}

TEST(GroupRegistry, AbortsWhatWasMadeFromAGroupOfTheName) {
  const Groups world = open_world("world", 3);
  const Groups child = split_all(world);
  const Groups grandchild = split_all(child);
  const Groups other = open_world("world/else", 3);
  EXPECT_EQ(ProcessGroup::abort_all("world", 3, "node-b is drained"), 3 * kPair);
  for (const Groups& aborted : {world, child, grandchild}) {
    EXPECT_NE(outcome(aborted).find("node-b is drained"), std::string::npos);
  }
  EXPECT_EQ(outcome(other), "works") << "only its name begins like that";
}

TEST(GroupRegistry, AbortsTheGenerationAndEarlierOnes) {
  const Groups first = open_world("world", 1);
  const Groups second = open_world("world", 2);
  const Groups third = open_world("world", 3);
  EXPECT_EQ(ProcessGroup::abort_all("world", 2, "over"), 2 * kPair);
  EXPECT_NE(outcome(first).find("over"), std::string::npos);
  EXPECT_NE(outcome(second).find("over"), std::string::npos);
  EXPECT_EQ(outcome(third), "works");
}

TEST(GroupRegistry, FailsWorkThatIsPendingInEveryGroup) {
  const Groups world = open_world("world", 1);
  const Groups child = split_all(world);
  const WorkPtr first = world[0]->barrier({.async = true});
  const WorkPtr second = child[0]->barrier({.async = true});
  EXPECT_EQ(ProcessGroup::abort_all("world", 1, "over"), 2 * kPair);
  EXPECT_THROW(first->wait(5s), Aborted);
  EXPECT_THROW(second->wait(5s), Aborted);
}

TEST(GroupRegistry, ForgetsGroupsThatWereDestroyed) {
  Groups world = open_world("world", 1);
  world.clear();
  EXPECT_EQ(ProcessGroup::abort_all("world", 9, "over"), 0u);
  EXPECT_EQ(ProcessGroup::abort_all("", 9, "over"), 0u);
}

TEST(GroupRegistry, AGroupMayBeDestroyedByTheEndOfItsWork) {
  Groups world = open_world("world", 1);
  const WorkPtr work = world[0]->barrier({.async = true});
  std::promise<void> destroyed;
  work->on_end([&](Work&) {
    world[0].reset();
    destroyed.set_value();
  });
  EXPECT_EQ(ProcessGroup::abort_all("world", 1, "over"), kPair);
  EXPECT_THROW(work->wait(), Aborted);
  destroyed.get_future().wait();  // wait() may return before the callbacks run
  EXPECT_EQ(ProcessGroup::abort_all("world", 1, "over"), 1u);
}

TEST(GroupRegistry, AForkedChildHasNoGroups) {
  const Groups world = open_world("world", 1);
  const pid_t child = fork();
  if (child == 0) _exit(static_cast<int>(ProcessGroup::abort_all("world", 1, "over")));
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(outcome(world), "works");
}

}  // namespace
}  // namespace c10dd
