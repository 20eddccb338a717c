// SPDX-License-Identifier: Apache-2.0
// Process groups through the real daemon: of the launcher's ranks, and in forked processes.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <thread>
#include <utility>
#include <vector>

#include "client/client.h"
#include "client/membership.h"
#include "collectives/process_group.h"
#include "tests/integration/daemon_process.h"
#include "tests/integration/metrics.h"

namespace {
bool is_child = false;  // forked by a test
}

// A forked child cannot look for leaks: the sanitizer waits for threads that exist in its parent
// only. The sanitizer calls this function before it looks.
// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" [[gnu::used]] int __lsan_is_turned_off() { return is_child ? 1 : 0; }

namespace c10dd {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

class ClientGroup : public testing::Test {
 protected:
  void SetUp() override { daemon_.start(); }

  std::shared_ptr<Client> launched(std::int64_t rank, std::int64_t world_size) {
    ClientOptions options;
    options.rank = rank;
    options.world_size = world_size;
    return Client::connect("c10dd://" + daemon_.address() + "/job", options);
  }

  /// Opens the group of `size` ranks, each on a thread and with a client of its own.
  std::vector<std::shared_ptr<ProcessGroup>> open_ranks(std::size_t size,
                                                        const GroupOptions& group_options) {
    std::vector<std::shared_ptr<ProcessGroup>> groups(size);
    std::vector<std::future<void>> opening;
    for (std::size_t rank = 0; rank < size; ++rank) {
      opening.push_back(std::async(std::launch::async, [&, rank] {
        groups[rank] = ProcessGroup::open(
            launched(static_cast<std::int64_t>(rank), static_cast<std::int64_t>(size)),
            group_options);
      }));
    }
    for (auto& rank : opening) rank.get();
    return groups;
  }

  test::DaemonProcess daemon_{"memory:"};
};

TEST_F(ClientGroup, TheLaunchersRanksNeedNotBeSaidAgain) {
  const auto reduce = [&](std::int64_t rank) {
    const auto group =
        ProcessGroup::open(launched(rank, 2), GroupOptions{.backend = "loopback"}, "tp");
    EXPECT_EQ(group->rank(), static_cast<Rank>(rank));
    EXPECT_EQ(group->kind(), "tp");
    std::vector<float> values(3, static_cast<float>(rank + 1));
    group->all_reduce(tensor_of(values))->wait();
    return values[0];
  };
  auto other = std::async(std::launch::async, reduce, 1);
  EXPECT_EQ(reduce(0), 3.0F);
  EXPECT_EQ(other.get(), 3.0F);
  EXPECT_THROW(ProcessGroup::open(Client::connect("c10dd://" + daemon_.address() + "/job")),
               InvalidArgument);
}

#if C10DD_WITH_GLOO

/// Calls `body` with each rank's group, on a thread per rank, and waits for all.
template <class Body>
void each_rank(const std::vector<std::shared_ptr<ProcessGroup>>& groups, Body body) {
  std::vector<std::future<void>> ranks;
  for (const auto& group : groups) {
    ranks.push_back(std::async(std::launch::async, [&] { body(*group); }));
  }
  for (auto& rank : ranks) rank.get();
}

TEST_F(ClientGroup, AGroupCostsEachRankOneRequestAndASplitNone) {
  for (const std::size_t size : {2u, 4u, 16u, 64u}) {
    std::vector<std::shared_ptr<Client>> clients;
    for (std::size_t rank = 0; rank < size; ++rank) {
      clients.push_back(launched(static_cast<std::int64_t>(rank), static_cast<std::int64_t>(size)));
    }
    std::uint64_t before = test::requests_of(daemon_.address());
    const auto since = [&] {
      const std::uint64_t now = test::requests_of(daemon_.address());
      return now - std::exchange(before, now);
    };
    std::vector<std::shared_ptr<ProcessGroup>> groups(size);
    std::vector<std::future<void>> opening;
    for (std::size_t rank = 0; rank < size; ++rank) {
      opening.push_back(std::async(std::launch::async, [&, rank] {
        groups[rank] = ProcessGroup::open(clients[rank], {.hostname = "127.0.0.1"});
      }));
    }
    for (auto& rank : opening) rank.get();
    EXPECT_EQ(since(), size) << size << " ranks";
    each_rank(groups, [&](ProcessGroup& group) {
      EXPECT_EQ(group.world().members.size(), size);
      EXPECT_EQ(group.world().members[0].process.pid, static_cast<std::uint64_t>(getpid()));
      if (group.rank() % 2 != 0) return;
      std::vector<Rank> even;
      for (Rank rank = 0; rank < group.size(); rank += 2) even.push_back(rank);
      const auto half = group.new_group(even);
      EXPECT_EQ(half->size(), even.size());
      std::vector<float> values = {1.0F};
      half->all_reduce(tensor_of(values));
      EXPECT_EQ(values[0], static_cast<float>(even.size()));
    });
    EXPECT_EQ(since(), size / 2) << "new_group of every second of " << size;
    each_rank(groups, [&](ProcessGroup& group) {
      const auto half = group.split(static_cast<std::int32_t>(group.rank() % 2));
      half->barrier();
    });
    EXPECT_EQ(since(), 0u) << "split of " << size;
  }
}

TEST_F(ClientGroup, GroupsOfSomeMembersEndWithTheirGeneration) {
  constexpr std::size_t kSize = 3;
  RendezvousOptions options;
  options.min = options.max = kSize;
  std::vector<std::shared_ptr<Membership>> members(kSize);
  std::vector<std::shared_ptr<ProcessGroup>> groups(kSize);
  std::vector<std::future<void>> opening;
  for (std::size_t i = 0; i < kSize; ++i) {
    opening.push_back(std::async(std::launch::async, [&] {
      auto own = Client::connect("c10dd://" + daemon_.address() + "/job")->rendezvous(options);
      const Rank rank = own->generation().rank;
      groups[rank] = ProcessGroup::open(own, {.hostname = "127.0.0.1"});
      members[rank] = std::move(own);
    }));
  }
  for (auto& one : opening) one.get();
  std::vector<std::shared_ptr<ProcessGroup>> pairs(kSize);
  std::vector<std::shared_ptr<ProcessGroup>> halves(kSize);
  each_rank(groups, [&](ProcessGroup& group) {
    if (group.rank() > 0) pairs[group.rank()] = group.new_group({2, 1});
    halves[group.rank()] = group.split(group.rank() == 0 ? 1 : 0);
  });
  EXPECT_EQ(pairs[2]->rank(), 0u);
  const WorkPtr waits = pairs[1]->barrier({.async = true});
  const WorkPtr too = halves[1]->barrier({.async = true});
  try {
    pairs[2]->monitored_barrier(200ms);
    ADD_FAILURE() << "rank 1 has not come";
  } catch (const TimedOut& late) {
    ASSERT_EQ(late.missing().size(), 1u) << late.what();
    EXPECT_EQ(late.missing()[0].rank, 1u);  // of the pair
  }
  members[0]->leave("enough");  // rank 0 is in neither group, but ends the generation
  for (const WorkPtr& work : {waits, too}) {
    EXPECT_THROW(work->wait(10s), Aborted);
    EXPECT_NE(work->error().find("rank 0"), std::string::npos) << work->error();
    EXPECT_EQ(work->error().find("of the job"), std::string::npos) << work->error();
    EXPECT_TRUE(work->failed_ranks().empty());  // rank 0 has no rank in the group
  }
}

TEST_F(ClientGroup, AMonitoredBarrierNamesAllThatHaveNotComeAndTheGroupLivesOn) {
  constexpr std::size_t kSize = 4;
  const auto groups = open_ranks(kSize, {.hostname = "127.0.0.1"});
  each_rank(groups, [](ProcessGroup& group) {
    group.monitored_barrier();
    if (group.rank() == 1 || group.rank() == 3) return;
    try {
      group.monitored_barrier(std::chrono::milliseconds(300));
      ADD_FAILURE() << "ranks 1 and 3 have not come";
    } catch (const TimedOut& late) {
      EXPECT_NE(std::string(late.what())
                    .find("timed out after 0.3 s: 2 of 4 ranks have not arrived: "
                          "ranks [1,3] (rank 1 on "),
                std::string::npos)
          << late.what();
      ASSERT_EQ(late.missing().size(), 2u);
      EXPECT_EQ(late.missing()[1].rank, 3u);
      EXPECT_EQ(late.missing()[1].pid, static_cast<std::uint64_t>(getpid()));
    }
  });
  each_rank(groups, [](ProcessGroup& group) {
    group.barrier();
    EXPECT_THROW(group.monitored_barrier(0s), InvalidArgument);
  });
}

/// The child's exit code; -1 when it was still there after 20 s.
int exit_code_of(pid_t child) {
  const auto end = Clock::now() + 20s;
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (Clock::now() > end) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
      return -1;
    }
    std::this_thread::sleep_for(5ms);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

TEST_F(ClientGroup, ANewGroupThatIsNotCompleteNamesWhoIsMissing) {
  constexpr std::size_t kSize = 4;
  const auto groups = open_ranks(kSize, {.open_timeout = 1s, .hostname = "127.0.0.1"});
  try {
    groups[2]->new_group({2, 3});
    ADD_FAILURE() << "rank 3 has not come";
  } catch (const TimedOut& late) {
    const std::string text = late.what();
    EXPECT_NE(text.find("new_group of process group \"world/[2-3]\" timed out after 1 s: 1 of 2 "
                        "ranks have not arrived: rank 1 on "),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("rank 1 of group \"world/[2-3]\" is rank 3 of the job"), std::string::npos)
        << text;
    ASSERT_EQ(late.missing().size(), 1u);
    EXPECT_EQ(late.missing()[0].rank, 1u);
  }
}

TEST_F(ClientGroup, GroupsOfTheSameRanksDoNotMix) {
  const auto groups = open_ranks(2, {.hostname = "127.0.0.1"});
  each_rank(groups, [](ProcessGroup& group) {
    const auto first = group.new_group({0, 1});
    const auto second = group.new_group({0, 1});
    const auto third = group.split(0);
    EXPECT_EQ(first->world().name, "world/[0-1]");
    EXPECT_EQ(second->world().name, "world/[0-1]#2");
    EXPECT_EQ(third->world().name, "world/[0-1]#3");
    const auto& own = group.rank() == 0 ? first : second;
    EXPECT_THROW(own->monitored_barrier(300ms), TimedOut);
    third->monitored_barrier();
    third->shutdown();
    EXPECT_THROW(third->monitored_barrier(), Error);
    EXPECT_THROW(third->new_group({0, 1}), Error);
  });
}

TEST_F(ClientGroup, ARankMayExitRightAfterItsFirstCollective) {
  constexpr int kSize = 8;
  for (int round = 0; round < 5; ++round) {
    const std::string run = "run-" + std::to_string(round);
    std::vector<pid_t> ranks;
    for (int rank = 0; rank < kSize; ++rank) {
      ranks.push_back(fork());
      if (ranks.back() != 0) continue;
      is_child = true;
      try {
        ClientOptions options;
        options.rank = rank;
        options.world_size = kSize;
        options.run = run;
        const auto group =
            ProcessGroup::open(Client::connect("c10dd://" + daemon_.address() + "/job", options),
                               {.hostname = "127.0.0.1"});
        float value = 1;
        group->broadcast(tensor_of(&value, 1), 0);
        _exit(0);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
        _exit(1);
      }
    }
    for (const pid_t rank : ranks) EXPECT_EQ(exit_code_of(rank), 0) << "round " << round;
  }
}

template <class F>
bool says_forked(F call) {
  try {
    call();
  } catch (const Forked&) {
    return true;
  }
  return false;
}

/// All that a rank has; used by other threads until `stop`, so that locks are held at any moment.
struct Possessions {
  std::shared_ptr<Client> client;
  std::shared_ptr<Membership> membership;
  std::shared_ptr<ProcessGroup> group;
  std::vector<float> values = std::vector<float>(1000);
  WorkPtr pending;
};

/// What the child sees; the number of its first wrong answer, or 0.
int use_in_child(Possessions& own) {
  int number = 0;
  const auto wrong = [&](auto call) { return ++number, !says_forked(call); };
  if (wrong([&] { own.group->all_reduce(tensor_of(own.values)); })) return number;
  if (wrong([&] { own.group->abort("over"); })) return number;
  if (wrong([&] { own.group->shutdown(); })) return number;
  if (wrong([&] { own.pending->wait(); })) return number;
  if (wrong([&] { own.pending->wait(1s); })) return number;
  if (wrong([&] { own.pending->status(); })) return number;
  if (wrong([&] { own.membership->state(); })) return number;
  if (wrong([&] { own.membership->barrier("b"); })) return number;
  if (wrong([&] { own.membership->next(); })) return number;
  if (wrong([&] { own.membership->finish(); })) return number;
  if (wrong([&] { own.client->barrier("b"); })) return number;
  if (wrong([&] { own.client->store()->set("k", "v"); })) return number;
  own = {};  // every destructor
  return 0;
}

TEST_F(ClientGroup, AForkedChildLeavesAllAloneAndTheParentGoesOn) {
  RendezvousOptions options;
  options.min = options.max = 2;
  options.ttl = 30s;
  std::vector<Possessions> ranks(2);
  const auto open = [&](std::size_t rank) {
    ranks[rank].client = launched(static_cast<std::int64_t>(rank), 2);
    ranks[rank].membership = ranks[rank].client->rendezvous(options);
    ranks[rank].group = ProcessGroup::open(ranks[rank].membership);
  };
  auto other = std::async(std::launch::async, open, 1);
  open(0);
  other.get();
  ranks[0].pending =
      ranks[0].group->all_reduce(tensor_of(ranks[0].values), ReduceOp::sum, {.async = true});
  std::atomic<bool> stop = false;
  std::thread busy([&] {
    while (!stop) {
      static_cast<void>(ranks[0].membership->state());
      static_cast<void>(ranks[0].pending->status());
      static_cast<void>(ranks[0].client->stats());
    }
  });
  for (int round = 0; round < 10; ++round) {
    const pid_t child = fork();
    // To return from main runs the destructors of what is static, too.
    if (child == 0) {
      is_child = true;
      std::exit(use_in_child(ranks[0]));
    }
    EXPECT_EQ(exit_code_of(child), 0) << "round " << round;
  }
  stop = true;
  busy.join();
  ranks[1].group->all_reduce(tensor_of(ranks[1].values))->wait();
  EXPECT_NO_THROW(ranks[0].pending->wait());
  EXPECT_FALSE(ranks[0].membership->state().ended(1));
}

#endif  // C10DD_WITH_GLOO

}  // namespace
}  // namespace c10dd
