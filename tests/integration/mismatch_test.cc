// SPDX-License-Identifier: Apache-2.0
// Groups on Gloo that can never go on, because one rank calls something else than the others, or
// because ranks use two groups in different orders: every rank throws the daemon's sentence,
// seconds after the call and not at its time-out, with and without a membership, and through a
// restart of the daemon. The ranks mostly wait, so each case runs in several worlds at the same
// time.
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <cstdio>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "client/client.h"
#include "client/membership.h"
#include "collectives/process_group.h"
#include "tests/integration/daemon_process.h"
#include "tests/unit/collectives/thread_ranks.h"
#include "tests/unit/temporary_directory.h"

namespace c10dd {
namespace {

using namespace std::chrono_literals;
using test::contains;
using test::run_ranks;
using Clock = std::chrono::steady_clock;

/// What a rank calls, until something throws.
using Program = std::function<void(ProcessGroup& group)>;

struct Ending {
  Code code = Code::ok;
  std::string text;
  std::vector<Missing> missing;
  Clock::duration after{0};
};

Ending ending_of(const Error& error) {
  Ending ending{error.code(), error.what(), {}};
  if (const auto* late = dynamic_cast<const TimedOut*>(&error)) ending.missing = late->missing();
  if (const auto* stuck = dynamic_cast<const Aborted*>(&error)) ending.missing = stuck->missing();
  return ending;
}

void all_reduce(ProcessGroup& group, std::size_t count, ReduceOp op = ReduceOp::sum) {
  std::vector<float> values(count, 1.0F);
  group.all_reduce(tensor_of(values), op);
}

/// A job with so many ranks; all jobs of a test run at the same time, on one daemon.
struct World {
  Rank size;
  bool with_membership;

  std::string name() const {
    return std::to_string(size) + "-ranks" + (with_membership ? "-of-a-membership" : "");
  }
};

constexpr World kStuckWorlds[] = {{2, false}, {2, true}, {4, false}, {4, true}};

/// How the ranks of one world have ended.
struct WorldEnd {
  World world;
  std::vector<Ending> endings;
};

struct Conditions {
  std::function<GroupOptions(Rank)> options = [](Rank) { return GroupOptions(); };
  bool stay = true;  ///< a rank leaves when all of its world have ended, not at its own end
  std::function<void()> meanwhile = [] {};
};

class Stuck : public ::testing::Test {
 protected:
  static constexpr Rank kOdd = 1;

  void SetUp() override { daemon_.start(); }

  /// What a rank holds. Its end says goodbye, and leaves.
  struct Member {
    std::shared_ptr<Membership> membership;
    std::shared_ptr<ProcessGroup> group;
  };

  Member open(const World& world, Rank rank, const GroupOptions& group) {
    ClientOptions options;
    options.rank = rank;
    options.world_size = world.size;
    options.host = "host-" + std::to_string(rank);
    const auto client =
        Client::connect("c10dd://" + daemon_.address() + "/" + world.name(), options);
    if (!world.with_membership) return {nullptr, ProcessGroup::open(client, group)};
    const auto membership = client->rendezvous({.min = world.size, .max = world.size});
    return {membership, ProcessGroup::open(membership, group)};
  }

  /// How each rank's program ends in each world; all begin together.
  std::vector<WorldEnd> run(const std::function<Program(Rank)>& program,
                            const Conditions& conditions) {
    std::vector<WorldEnd> ends;
    std::ptrdiff_t ranks = 0;
    for (const World& world : kStuckWorlds) {
      ends.push_back({world, std::vector<Ending>(world.size)});
      ranks += world.size;
    }
    std::barrier<> ready(ranks + 1);
    const auto run_world = [&](WorldEnd& end) {
      std::vector<Member> members(end.world.size);
      run_ranks(end.world.size, [&](Rank rank) {
        Member member;
        try {
          member = open(end.world, rank, conditions.options(rank));
          member.group->barrier();
        } catch (...) {
          ready.arrive_and_drop();  // the others need not wait
          throw;
        }
        ready.arrive_and_wait();
        const auto began = Clock::now();
        Ending& ending = end.endings[rank];
        try {
          program(rank)(*member.group);
        } catch (const Error& error) {
          ending = ending_of(error);
          ending.after = Clock::now() - began;
        }
        if (conditions.stay) members[rank] = std::move(member);
      });
    };
    std::vector<std::future<void>> running;
    for (WorldEnd& end : ends) {
      running.push_back(std::async(std::launch::async, run_world, std::ref(end)));
    }
    ready.arrive_and_wait();
    conditions.meanwhile();
    constexpr std::uint64_t kAnyGeneration = 1'000'000;
    const auto patience = Clock::now() + 30s;
    for (std::future<void>& one : running) {
      if (one.wait_until(patience) == std::future_status::timeout) {
        ProcessGroup::abort_all("world", kAnyGeneration, "the daemon has not ended it");
      }
      one.get();
    }
    return ends;
  }
  std::vector<WorldEnd> run(const std::function<Program(Rank)>& program) {
    return run(program, Conditions());
  }
  /// A mismatch of size.
  static Program sizes(Rank rank) {
    return [rank](ProcessGroup& group) { all_reduce(group, rank == kOdd ? 999 : 1000); };
  }

  /// Every rank was aborted, long before its time-out, and all with the same words, which name the
  /// odd rank and both calls.
  static void expect_aborted(const std::vector<WorldEnd>& ends, const std::string& odd_call,
                             const std::string& others_call) {
    const std::string odd = "rank 1 on host-1 (pid " + std::to_string(getpid()) + ")";
    for (const auto& [world, endings] : ends) {
      for (Rank rank = 0; rank < world.size; ++rank) {
        const Ending& ending = endings[rank];
        const std::string context =
            world.name() + ", rank " + std::to_string(rank) + ": " + ending.text;
        EXPECT_EQ(ending.code, Code::aborted) << context;
        EXPECT_EQ(ending.text, endings[0].text) << world.name();
        EXPECT_TRUE(contains(ending.text, odd + " issued " + odd_call)) << context;
        EXPECT_TRUE(contains(ending.text, " issued " + others_call)) << context;
        ASSERT_EQ(ending.missing.size(), world.size == 2 ? 2u : 1u) << context;
        EXPECT_EQ(ending.missing.back().rank, kOdd) << context;
        EXPECT_EQ(ending.missing.back().host, "host-1") << context;
      }
    }
    print_slowest(ends);
  }
  static void print_slowest(const std::vector<WorldEnd>& ends) {
    Clock::duration slowest{0};
    for (const WorldEnd& one : ends) {
      for (const Ending& ending : one.endings) slowest = std::max(slowest, ending.after);
    }
    std::printf("the last rank threw after %.2f s\n",
                std::chrono::duration<double>(slowest).count());
  }

  TemporaryDirectory state_;
  test::DaemonProcess daemon_{"rocksdb:" + state_.path() + "/state"};
};

TEST_F(Stuck, AMismatchOfType) {
  const auto ends = run([](Rank rank) {
    return [rank](ProcessGroup& group) {
      if (rank != kOdd) return all_reduce(group, 1000);
      std::vector<double> values(1000);
      group.all_reduce(tensor_of(values));
    };
  });
  expect_aborted(ends, "all_reduce of 1000 float64 sum", "all_reduce of 1000 float32 sum");
}

TEST_F(Stuck, AMismatchOfSize) {
  expect_aborted(run(sizes), "all_reduce of 999 float32 sum", "all_reduce of 1000 float32 sum");
}

TEST_F(Stuck, AMismatchOfReduction) {
  const auto ends = run([](Rank rank) {
    return [rank](ProcessGroup& group) {
      all_reduce(group, 1000, rank == kOdd ? ReduceOp::max : ReduceOp::sum);
    };
  });
  expect_aborted(ends, "all_reduce of 1000 float32 max", "all_reduce of 1000 float32 sum");
}

TEST_F(Stuck, AMismatchOfRoot) {
  // Whom neither root waits for goes on to the barrier, and waits there.
  const auto ends = run([](Rank rank) {
    return [rank](ProcessGroup& group) {
      std::vector<float> values(8, 1.0F);
      group.reduce(tensor_of(values), rank == kOdd ? kOdd : 0);
      group.barrier();
    };
  });
  expect_aborted(ends, "reduce of 8 float32 sum to rank 1", "reduce of 8 float32 sum to rank 0");
}

TEST_F(Stuck, AMismatchOfTheOperation) {
  const auto ends = run([](Rank rank) {
    return [rank](ProcessGroup& group) {
      if (rank == kOdd) return static_cast<void>(group.barrier());
      all_reduce(group, 1000);
    };
  });
  expect_aborted(ends, "barrier", "all_reduce of 1000 float32 sum");
}

TEST_F(Stuck, TwoGroupsInCrossedOrder) {
  const auto ends = run([](Rank rank) {
    return [rank](ProcessGroup& group) {
      std::vector<Rank> all;
      for (Rank one = 0; one < group.size(); ++one) all.push_back(one);
      const auto other = group.new_group(all);
      other->barrier();
      (rank == kOdd ? *other : group).barrier();
      (rank == kOdd ? group : *other).barrier();
    };
  });
  const auto sentence_of = [](const Ending& ending) {
    const std::string lead = " aborted: ";
    const std::size_t at = ending.text.find(lead);
    return at == std::string::npos ? ending.text : ending.text.substr(at + lead.size());
  };
  for (const auto& [world, endings] : ends) {
    for (const Ending& ending : endings) {
      EXPECT_EQ(ending.code, Code::aborted) << world.name() << ": " << ending.text;
      EXPECT_EQ(sentence_of(ending), sentence_of(endings[0])) << world.name();
      EXPECT_TRUE(sentence_of(ending).starts_with("deadlock: ")) << ending.text;
      EXPECT_FALSE(ending.missing.empty()) << ending.text;
    }
  }
  print_slowest(ends);
}

TEST_F(Stuck, AGroupThatIsNotToBeAbortedWaitsUntilItsTimeOutAndSaysTheSame) {
  const auto options = [](Rank) { return GroupOptions{.timeout = 3s, .abort_when_stuck = false}; };
  const auto ends = run(sizes, {.options = options});
  for (const auto& [world, endings] : ends) {
    for (const Ending& ending : endings) {
      const std::string context = world.name() + ": " + ending.text;
      EXPECT_EQ(ending.code, Code::timed_out) << context;
      EXPECT_GE(ending.after, 2900ms) << context;
      EXPECT_TRUE(contains(ending.text, "timed out after 3 s")) << context;
      EXPECT_TRUE(contains(ending.text, "; diagnosis: all_reduce 1 of group ")) << context;
      EXPECT_TRUE(contains(ending.text, " issued all_reduce of 999 float32 sum")) << context;
      ASSERT_FALSE(ending.missing.empty()) << context;
      EXPECT_EQ(ending.missing.back().rank, kOdd) << context;
      EXPECT_EQ(ending.missing.back().cause, "elsewhere") << context;
    }
  }
}

TEST_F(Stuck, WhoIsInNoCallIsNamed) {
  const auto late = [](Rank rank) {
    return [rank](ProcessGroup& group) {
      if (rank == kOdd) std::this_thread::sleep_for(2500ms);  // the others give up after 2 s
      all_reduce(group, 1000);
    };
  };
  const auto ends = run(late, {.options = [](Rank) { return GroupOptions{.timeout = 2s}; }});
  const std::string odd = "rank 1 on host-1 (pid " + std::to_string(getpid()) + "), which is";
  for (const auto& [world, endings] : ends) {
    for (Rank rank = 0; rank < world.size; ++rank) {
      const Ending& ending = endings[rank];
      EXPECT_NE(ending.code, Code::ok) << world.name() << ", rank " << rank;
      if (rank == kOdd) continue;
      EXPECT_TRUE(contains(ending.text, odd)) << world.name() << ": " << ending.text;
      ASSERT_EQ(ending.missing.size(), 1u) << world.name() << ": " << ending.text;
      EXPECT_EQ(ending.missing[0].rank, kOdd);
    }
  }
}

TEST_F(Stuck, WhoLosesItsConnectionToOneThatGaveUpSaysTheSame) {
  // Each rank has gone as soon as its call had failed.
  const auto options = [](Rank rank) {
    return GroupOptions{.timeout = rank == kOdd ? 60s : 2s, .abort_when_stuck = false};
  };
  const auto ends = run(sizes, {.options = options, .stay = false});
  for (const auto& [world, endings] : ends) {
    const Ending& odd = endings[kOdd];
    const std::string context = world.name() + ": " + odd.text;
    EXPECT_NE(odd.code, Code::ok) << context;
    EXPECT_TRUE(contains(odd.text, "issued all_reduce of 999 float32 sum")) << context;
    EXPECT_TRUE(contains(odd.text, "issued all_reduce of 1000 float32 sum")) << context;
  }
}

TEST_F(Stuck, ARestartOfTheDaemonForgetsNoCall) {
  const auto ends = run(sizes, {.meanwhile = [this] {
                          std::this_thread::sleep_for(600ms);  // some have told it their call
                          daemon_.stop(SIGKILL);
                          daemon_.start();
                        }});
  expect_aborted(ends, "all_reduce of 999 float32 sum", "all_reduce of 1000 float32 sum");
}

TEST_F(Stuck, WithoutADaemonNobodyWaitsForIt) {
  const auto meanwhile = [this] {
    // All are in the call, and the daemon has said nothing.
    std::this_thread::sleep_for(200ms);
    daemon_.stop(SIGKILL);
    std::this_thread::sleep_for(2s);
    daemon_.start();  // so that nobody waits for it to say goodbye
  };
  const auto ends = run(
      sizes, {.options = [](Rank) { return GroupOptions{.timeout = 1s}; }, .meanwhile = meanwhile});
  for (const auto& [world, endings] : ends) {
    for (const Ending& ending : endings) {
      const std::string context = world.name() + ": " + ending.text;
      EXPECT_TRUE(contains(ending.text, "timed out after 1 s")) << context;
      EXPECT_LT(ending.after, 1900ms) << context;
    }
  }
}

}  // namespace
}  // namespace c10dd
