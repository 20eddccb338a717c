// SPDX-License-Identifier: Apache-2.0
// After a lost peer, the group of a membership waits for the daemon's reason, for a limited time.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "client/errors.h"
#include "collectives/abortable_group.h"
#include "tests/unit/collectives/thread_ranks.h"

namespace c10dd {
namespace {

using namespace std::chrono_literals;
using collectives::AbortableGroup;
using test::run_ranks;

std::vector<std::shared_ptr<AbortableGroup>> open_pair(Duration patience) {
  const auto point = std::make_shared<test::ThreadExchange>(2);
  std::vector<std::shared_ptr<AbortableGroup>> groups(2);
  run_ranks(2, [&](Rank rank) {
    groups[rank] = collectives::open_group(
        std::make_shared<test::ThreadBootstrap>(point, rank), World{.rank = rank, .size = 2},
        {.backend = "loopback", .timeout = 60s}, {.reason_patience = patience});
  });
  return groups;
}

TEST(Verdict, APeerThatNobodyHasGivenUpIsLostWithoutConfirmation) {
  auto groups = open_pair(20ms);
  const WorkPtr work = groups[0]->barrier({.async = true});
  groups[1].reset();
  EXPECT_THROW(work->wait(), Aborted);
  EXPECT_NE(work->error().find("rank 1 closed its process group, not yet confirmed by the daemon"),
            std::string::npos)
      << work->error();
}

TEST(Verdict, TheReasonThatComesInTimeIsWhatIsThrown) {
  auto groups = open_pair(60s);
  const WorkPtr work = groups[0]->barrier({.async = true});
  groups[1].reset();
  Failure reason =
      failure(Code::aborted, "rank 1 on host-b (pid 7) is lost: its connection closed");
  reason.missing.push_back(
      {1, MissingRank::Cause::dead, "host-b", 7, 300ms, "its connection closed"});
  groups[0]->abort(reason);
  try {
    work->wait();
    ADD_FAILURE() << "rank 1 is gone";
  } catch (const Aborted& lost) {
    EXPECT_STREQ(lost.what(), ("process group \"world\" aborted: " + reason.detail).c_str());
    ASSERT_EQ(lost.missing().size(), 1u);
    EXPECT_EQ(lost.missing()[0].host, "host-b");
    EXPECT_EQ(lost.missing()[0].pid, 7u);
    EXPECT_EQ(lost.missing()[0].cause, "dead");
  }
}

TEST(Verdict, ATimeOutIsNoLoss) {
  const auto groups = open_pair(60s);
  EXPECT_THROW(groups[0]->barrier({.timeout = 20ms}), TimedOut);
}

}  // namespace
}  // namespace c10dd
