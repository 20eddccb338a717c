// SPDX-License-Identifier: Apache-2.0
// The agent of c10drun among two nodes, of which the other is late, lost, asked to leave, or fails.
#include "client/launcher/agent.h"

#include <gtest/gtest.h>

#include "client/launcher/address.h"
#include "tests/unit/client/agent_world.h"
#include "tests/unit/client/thrown_error.h"

namespace c10dd::run {
namespace {

using namespace std::chrono_literals;
using test::has;

class AgentNodesTest : public AgentWorld {
 protected:
  AgentNodesTest() {
    options_.min_nodes = 1;
    options_.max_nodes = 2;
    options_.grace = 60s;
    labels_ = {"2", "3"};
  }
  /// Tells a status with the first heartbeat of a generation, when its workers run.
  void tell_while_workers_run(const std::function<void(GroupStatus&)>& change) {
    follow([this, change, told = false,
            runs = false](const Sent& one) mutable -> std::optional<Reply> {
      if (one.header.op == Exchange::op.code) runs = true;
      if (one.header.op == Ping::op.code && runs && !std::exchange(told, true)) {
        GroupStatus news = status(GroupPhase::formed, "");
        change(news);
        tell(news);
      }
      return std::nullopt;
    });
  }
  static MissingRank lost_node() {
    MissingRank lost;
    lost.rank = 1;
    lost.host = "host-b";
    lost.pid = 5;
    return lost;
  }
};

TEST_F(AgentNodesTest, WaitsForTheWorkersOfTheOtherNode) {
  const Launched done = launch("echo $RANK of $WORLD_SIZE on $C10DD_NODE_RANK");
  EXPECT_EQ(done.code, 0) << done.notes << done.fatal;
  EXPECT_TRUE(has(done.out, "[1] 1 of 5 on 0\n"));
  EXPECT_TRUE(has(done.notes, "node 0 of 2, ranks 0-1 of 5, "));
  EXPECT_TRUE(has(done.notes, "waiting for 1 to 2 nodes at "));
  EXPECT_EQ(asked(Barrier::op.code), 1);
  ASSERT_EQ(leaves().size(), 1u);
  EXPECT_EQ(leaves()[0].kind, Leave::Kind::finish);
}

TEST_F(AgentNodesTest, EndsWellWhenTheOthersHaveGivenUpWaitingForIt) {
  follow([](const Sent& one) -> std::optional<Reply> {
    if (one.header.op != Barrier::op.code) return std::nullopt;
    Failure late = failure(Code::timed_out, "barrier timed out");
    MissingRank self;
    self.rank = 0;
    late.missing = {self};
    return late;
  });
  const Launched done = launch("true");
  EXPECT_EQ(done.code, 0) << done.notes << done.fatal;
  EXPECT_EQ(done.notes.find("have not finished"), std::string::npos);
}

TEST_F(AgentNodesTest, EndsWellWhenTheOtherNodeDoesNotEnd) {
  options_.exit_timeout = 10ms;
  follow([](const Sent& one) -> std::optional<Reply> {
    if (one.header.op != Barrier::op.code) return std::nullopt;
    Failure late = failure(Code::timed_out, "barrier timed out: rank 1 on host-b (pid 5)");
    late.missing = {lost_node()};
    return late;
  });
  const Launched done = launch("true");
  EXPECT_EQ(done.code, 0) << done.notes << done.fatal;
  EXPECT_TRUE(has(done.notes, "the other nodes did not finish within --exit-timeout 0.01 s: "));
  EXPECT_TRUE(has(done.notes, "node 1 (host-b, agent pid 5)"));
}

TEST_F(AgentNodesTest, ANodeThatIsLostRestartsTheWorkersAndIsCounted) {
  tell_while_workers_run([](GroupStatus& news) {
    news.phase = GroupPhase::broken;
    news.reason = "rank 1 on host-b (pid 5) is lost: silent for 3 s";
    news.lost = {{1, 1}};
    news.details = {lost_node()};
  });
  const Launched done = launch("[ $C10DD_GENERATION = 2 ] && exit 0; sleep 1000");
  EXPECT_EQ(done.code, 0) << done.notes << done.fatal;
  EXPECT_TRUE(
      has(done.notes,
          "generation 1 has ended: node 1 (host-b, agent pid 5) is lost: silent for 3 s\n"));
  EXPECT_EQ(asked(Join::op.code), 2);
  EXPECT_EQ(asked(Transact::op.code), 1) << "the loss counts against host-b";
  EXPECT_TRUE(has(done.notes, ", 0 restarts of 0\n")) << "it is no failure";
  EXPECT_EQ(leaves().back().kind, Leave::Kind::finish);
}

TEST_F(AgentNodesTest, AFailureOfTheOtherNodeEndsTheLaunchWithItsCode) {
  tell_while_workers_run([](GroupStatus& news) {
    news.phase = GroupPhase::broken;
    news.reason =
        "rank 1 on host-b (pid 5) has failed: exit code 9: rank 4 on host-b (pid 7) exited with "
        "code 9; last lines: a | b";
  });
  const Launched failed = launch("sleep 1000");
  EXPECT_EQ(failed.code, 9) << failed.notes << failed.fatal;
  EXPECT_TRUE(has(failed.notes,
                  "the job has failed: node 1 (host-b, agent pid 5) reports: rank 4 on host-b (pid "
                  "7) exited with code 9\n    a\n    b\n"));
  EXPECT_EQ(asked(Join::op.code), 1);
  EXPECT_EQ(leaves().back().detail, "the job has failed more often than --max-restarts allows");
}

TEST_F(AgentNodesTest, AFailureWhileTheOtherNodeLeavesIsNotCounted) {
  follow([this](const Sent& one) -> std::optional<Reply> {
    if (one.header.op == Exchange::op.code && generation_ == 1) {
      GroupStatus news = status(GroupPhase::formed, "");
      Notice notice;
      notice.number = 5;
      notice.ranks = {{1, 1}};
      news.notices = {notice};
      tell(news);
    }
    return std::nullopt;
  });
  const Launched done = launch("[ $C10DD_GENERATION = 2 ] && exit 0; exit 3");
  EXPECT_EQ(done.code, 0) << done.notes << done.fatal;
  EXPECT_TRUE(has(done.notes, "does not count as a failure: "));
  for (const Leave& leave : leaves()) EXPECT_NE(leave.kind, Leave::Kind::fail);
}

TEST_F(AgentNodesTest, ANewNodeRestartsTheWorkers) {
  labels_ = {"2"};
  tell_while_workers_run([](GroupStatus& news) { news.waiting = 1; });
  const Launched done = launch("[ $C10DD_GENERATION = 2 ] && exit 0; sleep 1000");
  EXPECT_EQ(done.code, 0) << done.notes << done.fatal;
  EXPECT_TRUE(has(done.notes, "1 node joined; restarting all workers\n"));
  EXPECT_EQ(asked(Join::op.code), 2);
}

TEST_F(AgentNodesTest, TellsTheOthersBeforeItLeavesForASignal) {
  const Launched left = launch("[ $RANK = 0 ] && kill -TERM $PPID; sleep 1000");
  EXPECT_EQ(left.code, 128 + SIGTERM) << left.notes << left.fatal;
  EXPECT_EQ(asked(Notify::op.code), 1);
  EXPECT_EQ(leaves().back().detail, "drained by SIGTERM");
}

TEST_F(AgentNodesTest, AHostThatWasLostTooOftenDoesNotJoin) {
  options_.max_flaps = 3;
  follow([](const Sent& one) -> std::optional<Reply> {
    const auto* get = std::get_if<Get>(&one.request);
    if (get == nullptr || std::string(get->key) != "c10drun/flaps/" + host_name()) {
      return std::nullopt;
    }
    return ReplyBody(Value{"4 17", 1});
  });
  const Launched refused = launch("true");
  EXPECT_EQ(refused.code, exit_code::kTryAgain);
  EXPECT_TRUE(has(refused.fatal,
                  "this host was lost 4 times within a minute of joining job job, "
                  "limit --max-flaps 3"));
  EXPECT_EQ(asked(Join::op.code), 0);
}

}  // namespace
}  // namespace c10dd::run
