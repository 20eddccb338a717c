// SPDX-License-Identifier: Apache-2.0
// One rank on Gloo calls something else than the others: every rank's exception names it and both
// calls, with and without a membership, and through a restart of the daemon.
#include <gtest/gtest.h>

#include <functional>
#include <optional>
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

class Mismatch : public ::testing::TestWithParam<std::tuple<Rank, bool>> {
 protected:
  static constexpr Rank kOdd = 1;

  void SetUp() override { daemon_.start(); }

  static Rank size() { return std::get<0>(GetParam()); }
  static bool with_membership() { return std::get<1>(GetParam()); }

  /// What a rank holds. Its end says goodbye, and leaves.
  struct Member {
    std::shared_ptr<Membership> membership;
    std::shared_ptr<ProcessGroup> group;
  };

  Member open(Rank rank, Duration timeout) {
    ClientOptions options;
    options.rank = rank;
    options.world_size = size();
    options.host = "host-" + std::to_string(rank);
    const auto client = Client::connect("c10dd://" + daemon_.address() + "/job", options);
    const GroupOptions group{.timeout = timeout};
    if (!with_membership()) return {nullptr, ProcessGroup::open(client, group)};
    const auto membership = client->rendezvous({.min = size(), .max = size()});
    return {membership, ProcessGroup::open(membership, group)};
  }

  /// How each rank's program ends; all begin together.
  std::vector<Ending> run(const std::function<Program(Rank)>& program, Duration timeout = 1s) {
    std::vector<Ending> endings(size());
    std::vector<Member> members(size());  // until all have ended
    run_ranks(size(), [&](Rank rank) {
      members[rank] = open(rank, timeout);
      const auto& group = members[rank].group;
      group->barrier();
      const auto began = Clock::now();
      Ending& ending = endings[rank];
      try {
        program(rank)(*group);
      } catch (const Error& error) {
        ending = ending_of(error);
        ending.after = Clock::now() - began;
      }
    });
    return endings;
  }

  /// A mismatch of size, while something else happens.
  std::vector<Ending> run_sizes(Duration timeout, const std::function<void()>& meanwhile) {
    std::thread other;
    auto endings = run(
        [&](Rank rank) {
          if (rank == 0) other = std::thread(meanwhile);
          return [rank](ProcessGroup& group) { all_reduce(group, rank == kOdd ? 999 : 1000); };
        },
        timeout);
    other.join();
    return endings;
  }

  /// Every exception names the odd rank and both calls.
  static void expect_named(const std::vector<Ending>& endings, const std::string& odd_call,
                           const std::string& others_call) {
    const std::string odd = "rank 1 on host-1 (pid " + std::to_string(getpid()) + ") is in ";
    for (Rank rank = 0; rank < size(); ++rank) {
      const Ending& ending = endings[rank];
      EXPECT_EQ(ending.code, Code::timed_out) << "rank " << rank << ": " << ending.text;
      EXPECT_NE(ending.text.find(odd + odd_call), std::string::npos) << rank << ": " << ending.text;
      EXPECT_NE(ending.text.find(" in " + others_call), std::string::npos)
          << rank << ": " << ending.text;
    }
  }

  /// And carries it as the one that is missing.
  static void expect_missing(const std::vector<Ending>& endings) {
    for (const Ending& ending : endings) {
      ASSERT_EQ(ending.missing.size(), 1u) << ending.text;
      EXPECT_EQ(ending.missing[0].rank, kOdd);
      EXPECT_EQ(ending.missing[0].host, "host-1");
      EXPECT_EQ(ending.missing[0].cause, "elsewhere");
    }
  }

  TemporaryDirectory state_;
  test::DaemonProcess daemon_{"rocksdb:" + state_.path() + "/state"};
};

TEST_P(Mismatch, OfType) {
  const auto endings = run([](Rank rank) {
    return [rank](ProcessGroup& group) {
      if (rank != kOdd) return all_reduce(group, 1000);
      std::vector<double> values(1000);
      group.all_reduce(tensor_of(values));
    };
  });
  expect_named(endings, "all_reduce 1 of 1000 float64 sum", "all_reduce 1 of 1000 float32 sum");
  expect_missing(endings);
}

TEST_P(Mismatch, OfSize) {
  const auto endings = run([](Rank rank) {
    return [rank](ProcessGroup& group) { all_reduce(group, rank == kOdd ? 999 : 1000); };
  });
  expect_named(endings, "all_reduce 1 of 999 float32 sum", "all_reduce 1 of 1000 float32 sum");
  expect_missing(endings);
}

TEST_P(Mismatch, OfReduction) {
  const auto endings = run([](Rank rank) {
    return [rank](ProcessGroup& group) {
      all_reduce(group, 1000, rank == kOdd ? ReduceOp::max : ReduceOp::sum);
    };
  });
  expect_named(endings, "all_reduce 1 of 1000 float32 max", "all_reduce 1 of 1000 float32 sum");
  expect_missing(endings);
}

TEST_P(Mismatch, OfRoot) {
  // Whom the right root has served goes on to the barrier, and waits there.
  const auto endings = run([](Rank rank) {
    return [rank](ProcessGroup& group) {
      broadcast(group, rank == kOdd ? kOdd : 0);
      group.barrier();
    };
  });
  expect_named(endings, "broadcast 1 of 8 float32 from rank 1",
               "broadcast 1 of 8 float32 from rank 0");
}

TEST_P(Mismatch, OfOrder) {
  const auto endings = run([](Rank rank) {
    return [rank](ProcessGroup& group) {
      if (rank == kOdd) broadcast(group, 0);
      all_reduce(group, 1000);
      if (rank != kOdd) broadcast(group, 0);
    };
  });
  expect_named(endings, "broadcast 1 of 8 float32 from rank 0", "all_reduce 1 of 1000 float32 sum");
  expect_missing(endings);
}

TEST_P(Mismatch, WhoIsInNoCallIsNamed) {
  const auto endings = run([](Rank rank) {
    return [rank](ProcessGroup& group) {
      if (rank == kOdd) std::this_thread::sleep_for(1500ms);  // the others give up after 1 s
      all_reduce(group, 1000);
    };
  });
  for (Rank rank = 0; rank < size(); ++rank) {
    const Ending& ending = endings[rank];
    EXPECT_EQ(ending.code == Code::ok, false) << rank;
    if (rank == kOdd) continue;
    EXPECT_NE(ending.text.find("rank 1 on host-1 (pid " + std::to_string(getpid()) +
                               ") is in no call of this group"),
              std::string::npos)
        << ending.text;
    ASSERT_EQ(ending.missing.size(), 1u) << ending.text;
    EXPECT_EQ(ending.missing[0].rank, kOdd);
  }
}

TEST_P(Mismatch, WhoLosesItsConnectionToOneThatGaveUpSaysTheSame) {
  std::vector<Ending> endings(size());
  run_ranks(size(), [&](Rank rank) {
    const Member member = open(rank, rank == kOdd ? 60s : 1s);
    member.group->barrier();
    try {
      all_reduce(*member.group, rank == kOdd ? 999 : 1000);
    } catch (const Error& error) {
      endings[rank] = ending_of(error);
    }
  });  // each rank has gone as soon as its call had failed
  const Ending& odd = endings[kOdd];
  EXPECT_NE(odd.code, Code::ok);
  EXPECT_NE(odd.text.find("is in all_reduce 1 of 999 float32 sum"), std::string::npos) << odd.text;
  EXPECT_NE(odd.text.find("in all_reduce 1 of 1000 float32 sum"), std::string::npos) << odd.text;
}

TEST_P(Mismatch, ARestartOfTheDaemonForgetsNoCall) {
  const auto endings = run_sizes(4s, [this] {
    std::this_thread::sleep_for(2300ms);  // all have published, at 2 s
    daemon_.stop(SIGKILL);
    daemon_.start();
  });
  expect_named(endings, "all_reduce 1 of 999 float32 sum", "all_reduce 1 of 1000 float32 sum");
}

TEST_P(Mismatch, WithoutADaemonNobodyWaitsForIt) {
  const auto endings = run_sizes(1s, [this] {
    std::this_thread::sleep_for(300ms);  // all are in the call, and nobody has published
    daemon_.stop(SIGKILL);
  });
  for (const Ending& ending : endings) {
    EXPECT_NE(ending.text.find("timed out after 1 s"), std::string::npos) << ending.text;
    EXPECT_LT(ending.after, 1900ms) << ending.text;
  }
}

INSTANTIATE_TEST_SUITE_P(Worlds, Mismatch,
                         ::testing::Combine(::testing::Values(3, 4), ::testing::Bool()),
                         [](const auto& world) {
                           return std::to_string(std::get<0>(world.param)) + "Ranks" +
                                  (std::get<1>(world.param) ? "OfAMembership" : "");
                         });

}  // namespace
}  // namespace c10dd
