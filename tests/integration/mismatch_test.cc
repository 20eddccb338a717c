// SPDX-License-Identifier: Apache-2.0
// One rank on Gloo calls something else than the others: every rank's exception names it and both
// calls, with and without a membership, and through a restart of the daemon. The ranks mostly wait,
// so each case runs in several worlds at the same time.
#include <gtest/gtest.h>

#include <barrier>
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
  return ending;
}

void all_reduce(ProcessGroup& group, std::size_t count, ReduceOp op = ReduceOp::sum) {
  std::vector<float> values(count, 1.0F);
  group.all_reduce(tensor_of(values), op);
}

void broadcast(ProcessGroup& group, Rank root) {
  std::vector<float> values(8, 1.0F);
  group.broadcast(tensor_of(values), root);
}

/// A job with so many ranks; all jobs of a test run at the same time, on one daemon.
struct World {
  Rank size;
  bool with_membership;

  std::string name() const {
    return std::to_string(size) + "-ranks" + (with_membership ? "-of-a-membership" : "");
  }
};

constexpr World kMismatchWorlds[] = {{3, false}, {3, true}, {4, false}, {4, true}};

class Mismatch : public ::testing::Test {
 protected:
  static constexpr Rank kOdd = 1;

  void SetUp() override { daemon_.start(); }

  /// What a rank holds. Its end says goodbye, and leaves.
  struct Member {
    std::shared_ptr<Membership> membership;
    std::shared_ptr<ProcessGroup> group;
  };

  Member open(const World& world, Rank rank, Duration timeout) {
    ClientOptions options;
    options.rank = rank;
    options.world_size = world.size;
    options.host = "host-" + std::to_string(rank);
    const auto client =
        Client::connect("c10dd://" + daemon_.address() + "/" + world.name(), options);
    const GroupOptions group{.timeout = timeout};
    if (!world.with_membership) return {nullptr, ProcessGroup::open(client, group)};
    const auto membership = client->rendezvous({.min = world.size, .max = world.size});
    return {membership, ProcessGroup::open(membership, group)};
  }

  /// How the ranks of one world have ended.
  struct WorldEnd {
    World world;
    std::vector<Ending> endings;
  };

  struct Conditions {
    std::function<Duration(Rank)> timeout = [](Rank) { return 1s; };
    bool stay = true;  ///< a rank leaves when all of its world have ended, not at its own end
    std::function<void()> meanwhile = [] {};
  };

  /// How each rank's program ends in each world; all begin together.
  std::vector<WorldEnd> run(const std::function<Program(Rank)>& program,
                            const Conditions& conditions) {
    std::vector<WorldEnd> ends;
    std::ptrdiff_t ranks = 0;
    for (const World& world : kMismatchWorlds) {
      ends.push_back({world, std::vector<Ending>(world.size)});
      ranks += world.size;
    }
    std::barrier<> ready(ranks + 1);
    const auto run_world = [&](WorldEnd& end) {
      std::vector<Member> members(end.world.size);
      run_ranks(end.world.size, [&](Rank rank) {
        Member member;
        try {
          member = open(end.world, rank, conditions.timeout(rank));
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
    for (std::future<void>& one : running) one.get();
    return ends;
  }
  std::vector<WorldEnd> run(const std::function<Program(Rank)>& program) {
    return run(program, Conditions());
  }

  /// A mismatch of size.
  static Program sizes(Rank rank) {
    return [rank](ProcessGroup& group) { all_reduce(group, rank == kOdd ? 999 : 1000); };
  }

  /// Every exception names the odd rank and both calls.
  static void expect_named(const std::vector<WorldEnd>& ends, const std::string& odd_call,
                           const std::string& others_call) {
    const std::string odd = "rank 1 on host-1 (pid " + std::to_string(getpid()) + ") is in ";
    for (const auto& [world, endings] : ends) {
      for (Rank rank = 0; rank < world.size; ++rank) {
        const Ending& ending = endings[rank];
        const std::string context =
            world.name() + ", rank " + std::to_string(rank) + ": " + ending.text;
        EXPECT_EQ(ending.code, Code::timed_out) << context;
        EXPECT_NE(ending.text.find(odd + odd_call), std::string::npos) << context;
        EXPECT_NE(ending.text.find(" in " + others_call), std::string::npos) << context;
      }
    }
  }

  /// And carries it as the one that is missing.
  static void expect_missing(const std::vector<WorldEnd>& ends) {
    for (const auto& [world, endings] : ends) {
      for (const Ending& ending : endings) {
        ASSERT_EQ(ending.missing.size(), 1u) << world.name() << ": " << ending.text;
        EXPECT_EQ(ending.missing[0].rank, kOdd);
        EXPECT_EQ(ending.missing[0].host, "host-1");
        EXPECT_EQ(ending.missing[0].cause, "elsewhere");
      }
    }
  }

  TemporaryDirectory state_;
  test::DaemonProcess daemon_{"rocksdb:" + state_.path() + "/state"};
};

TEST_F(Mismatch, OfType) {
  const auto ends = run([](Rank rank) {
    return [rank](ProcessGroup& group) {
      if (rank != kOdd) return all_reduce(group, 1000);
      std::vector<double> values(1000);
      group.all_reduce(tensor_of(values));
    };
  });
  expect_named(ends, "all_reduce 1 of 1000 float64 sum", "all_reduce 1 of 1000 float32 sum");
  expect_missing(ends);
}

TEST_F(Mismatch, OfSize) {
  const auto ends = run(sizes);
  expect_named(ends, "all_reduce 1 of 999 float32 sum", "all_reduce 1 of 1000 float32 sum");
  expect_missing(ends);
}

TEST_F(Mismatch, OfReduction) {
  const auto ends = run([](Rank rank) {
    return [rank](ProcessGroup& group) {
      all_reduce(group, 1000, rank == kOdd ? ReduceOp::max : ReduceOp::sum);
    };
  });
  expect_named(ends, "all_reduce 1 of 1000 float32 max", "all_reduce 1 of 1000 float32 sum");
  expect_missing(ends);
}

TEST_F(Mismatch, OfRoot) {
  // Whom the right root has served goes on to the barrier, and waits there.
  const auto ends = run([](Rank rank) {
    return [rank](ProcessGroup& group) {
      broadcast(group, rank == kOdd ? kOdd : 0);
      group.barrier();
    };
  });
  expect_named(ends, "broadcast 1 of 8 float32 from rank 1",
               "broadcast 1 of 8 float32 from rank 0");
}

TEST_F(Mismatch, OfOrder) {
  const auto ends = run([](Rank rank) {
    return [rank](ProcessGroup& group) {
      if (rank == kOdd) broadcast(group, 0);
      all_reduce(group, 1000);
      if (rank != kOdd) broadcast(group, 0);
    };
  });
  expect_named(ends, "broadcast 1 of 8 float32 from rank 0", "all_reduce 1 of 1000 float32 sum");
  expect_missing(ends);
}

TEST_F(Mismatch, WhoIsInNoCallIsNamed) {
  const auto ends = run([](Rank rank) {
    return [rank](ProcessGroup& group) {
      if (rank == kOdd) std::this_thread::sleep_for(1500ms);  // the others give up after 1 s
      all_reduce(group, 1000);
    };
  });
  const std::string odd =
      "rank 1 on host-1 (pid " + std::to_string(getpid()) + ") is in no collective of this group";
  for (const auto& [world, endings] : ends) {
    for (Rank rank = 0; rank < world.size; ++rank) {
      const Ending& ending = endings[rank];
      EXPECT_NE(ending.code, Code::ok) << world.name() << ", rank " << rank;
      if (rank == kOdd) continue;
      EXPECT_NE(ending.text.find(odd), std::string::npos) << world.name() << ": " << ending.text;
      ASSERT_EQ(ending.missing.size(), 1u) << world.name() << ": " << ending.text;
      EXPECT_EQ(ending.missing[0].rank, kOdd);
    }
  }
}

TEST_F(Mismatch, WhoLosesItsConnectionToOneThatGaveUpSaysTheSame) {
  // Each rank has gone as soon as its call had failed.
  const auto ends =
      run(sizes, {.timeout = [](Rank rank) { return rank == kOdd ? 60s : 1s; }, .stay = false});
  for (const auto& [world, endings] : ends) {
    const Ending& odd = endings[kOdd];
    const std::string context = world.name() + ": " + odd.text;
    EXPECT_NE(odd.code, Code::ok) << context;
    EXPECT_NE(odd.text.find("is in all_reduce 1 of 999 float32 sum"), std::string::npos) << context;
    EXPECT_NE(odd.text.find("in all_reduce 1 of 1000 float32 sum"), std::string::npos) << context;
  }
}

TEST_F(Mismatch, ARestartOfTheDaemonForgetsNoCall) {
  const auto ends =
      run(sizes, {.timeout = [](Rank) { return 4s; },
                  .meanwhile =
                      [this] {
                        std::this_thread::sleep_for(2300ms);  // all have published, at 2 s
                        daemon_.stop(SIGKILL);
                        daemon_.start();
                      }});
  expect_named(ends, "all_reduce 1 of 999 float32 sum", "all_reduce 1 of 1000 float32 sum");
}

TEST_F(Mismatch, WithoutADaemonNobodyWaitsForIt) {
  const auto ends = run(sizes, {.meanwhile = [this] {
                          // All are in the call, and nobody has published.
                          std::this_thread::sleep_for(300ms);
                          daemon_.stop(SIGKILL);
                          std::this_thread::sleep_for(2s);
                          daemon_.start();  // so that nobody waits for it to say goodbye
                        }});
  for (const auto& [world, endings] : ends) {
    for (const Ending& ending : endings) {
      const std::string context = world.name() + ": " + ending.text;
      EXPECT_NE(ending.text.find("timed out after 1 s"), std::string::npos) << context;
      EXPECT_LT(ending.after, 1900ms) << context;
    }
  }
}

}  // namespace
}  // namespace c10dd
