// SPDX-License-Identifier: Apache-2.0
// The agent of c10drun with real workers, over a daemon that refuses, is silent, or tells that
// others are lost.
#include "client/launcher/agent.h"

#include <gtest/gtest.h>

#include "client/errors.h"
#include "client/launcher/address.h"
#include "tests/unit/client/agent_world.h"
#include "tests/unit/client/listening_socket.h"
#include "tests/unit/client/thrown_error.h"

namespace c10dd::run {
namespace {

using namespace std::chrono_literals;
using test::has;
using AgentTest = AgentWorld;

TEST_F(AgentTest, RunsTheWorkersOfTheNodeToTheirEnd) {
  const std::ptrdiff_t before = test::open_descriptors();
  const Launched done =
      launch("echo \"$RANK of $WORLD_SIZE at $MASTER_ADDR, restart $TORCHELASTIC_RESTART_COUNT\"");
  EXPECT_EQ(done.code, 0) << done.notes << done.fatal;
  EXPECT_TRUE(has(done.out, "[0] 0 of 2 at 127.0.0.1, restart 0\n"));
  EXPECT_TRUE(has(done.out, "[1] 1 of 2 at 127.0.0.1, restart 0\n"));
  EXPECT_TRUE(has(done.notes, "c10drun: generation 1: node 0 of 1, ranks 0-1 of 2, rank 0 at "));
  ASSERT_EQ(leaves().size(), 1u);
  EXPECT_EQ(leaves()[0].kind, Leave::Kind::finish);
  EXPECT_EQ(leaves()[0].group, "c10drun");
  EXPECT_EQ(asked(Goodbye::op.code), 1);
  EXPECT_EQ(asked(Barrier::op.code), 0) << "there is no other node to wait for";
  EXPECT_LE(test::open_descriptors(), before + 2) << "but for those of the daemon";
}

TEST_F(AgentTest, AFailureEndsTheOthersAndTheLaunchWithItsCode) {
  const Launched failed = launch("if [ $RANK = 1 ]; then echo why >&2; exit 3; fi; sleep 1000");
  EXPECT_EQ(failed.code, 3) << failed.notes << failed.fatal;
  ASSERT_EQ(leaves().size(), 2u);
  EXPECT_EQ(leaves()[0].kind, Leave::Kind::fail);
  EXPECT_EQ(leaves()[0].generation, 1u);
  EXPECT_TRUE(has(leaves()[0].detail, "exit code 3: rank 1 on " + host_name() + " (pid "));
  EXPECT_TRUE(has(leaves()[0].detail, ") exited with code 3; last lines: why"));
  EXPECT_EQ(leaves()[1].kind, Leave::Kind::leave);
  EXPECT_TRUE(has(failed.notes,
                  "c10drun: the job has failed: node 0 (host-a, agent pid 9) reports: rank 1 on "));
  EXPECT_TRUE(has(failed.notes, "\n    why\n  1 other worker of this node was stopped\n"));
  EXPECT_EQ(asked(Join::op.code), 1);
}

TEST_F(AgentTest, RestartsAllWorkersAsOftenAsItMayAndCountsOnlyThisLaunch) {
  failures_ = 4;  // of earlier launches
  options_.max_restarts = 2;
  const Launched done = launch(
      "if [ $TORCHELASTIC_RESTART_COUNT = 2 ]; then echo in $C10DD_GENERATION; exit 0; fi; "
      "[ $RANK = 0 ] && exit 5; sleep 1000");
  EXPECT_EQ(done.code, 0) << done.notes << done.fatal;
  EXPECT_TRUE(has(done.out, "[0] in 3\n"));
  EXPECT_TRUE(has(done.out, "[1] in 3\n"));
  EXPECT_TRUE(has(done.notes, ", 2 restarts of 2\n"));
  EXPECT_EQ(asked(Join::op.code), 3);
}

TEST_F(AgentTest, GivesUpAfterTooManyRestarts) {
  options_.max_restarts = 1;
  const Launched failed = launch("exit 5");
  EXPECT_EQ(failed.code, 5) << failed.notes << failed.fatal;
  EXPECT_EQ(asked(Join::op.code), 2);
  EXPECT_TRUE(has(failed.notes, "the job has failed after 1 restart: "));
}

TEST_F(AgentTest, DecidesItselfIfItsNodeIsAloneAndTheDaemonSaysNothing) {
  tells_failures_ = false;
  const Launched failed = launch("[ $RANK = 0 ] && exit 6; sleep 1000");
  EXPECT_EQ(failed.code, 6) << failed.notes << failed.fatal;
  EXPECT_TRUE(has(failed.notes, "the job has failed: rank 0 on "));
}

// ---- signals -----------------------------------------------------------------------------------

TEST_F(AgentTest, LeavesInGoodOrderOnASignal) {
  const Launched left = launch(
      "trap 'exit 0' TERM; [ $RANK = 0 ] && kill -TERM $PPID; sleep 1000 >/dev/null 2>&1 & wait");
  EXPECT_EQ(left.code, 128 + SIGTERM) << left.notes << left.fatal;
  ASSERT_EQ(leaves().size(), 1u);
  EXPECT_EQ(leaves()[0].kind, Leave::Kind::leave);
  EXPECT_EQ(leaves()[0].detail, "drained by SIGTERM");
  EXPECT_TRUE(has(left.notes, "c10drun: received SIGTERM; stopping the workers\n"));
  EXPECT_EQ(left.notes.find("did not stop"), std::string::npos);
}

TEST_F(AgentTest, KillsWhoIgnoresASignalAfterTheGraceAndTwoSignalsAreOneEvent) {
  options_.grace = 400ms;
  const test::SignalDisposition interrupt(SIGINT, SIG_DFL);
  const Launched left = launch(
      "trap '' TERM INT; if [ $RANK = 1 ]; then touch $HOME_OF_TEST/ready; else "
      "while ! [ -e $HOME_OF_TEST/ready ]; do sleep 0.01; done; kill -TERM $PPID; "
      "kill -INT $PPID; fi; sleep 1000");
  EXPECT_TRUE(left.code == 128 + SIGTERM || left.code == 128 + SIGINT) << left.code << left.notes;
  EXPECT_TRUE(has(left.notes, "; stopping the workers\n"));
  EXPECT_TRUE(has(left.notes, ", too; the workers still have the rest of --grace 0.4 s"));
  EXPECT_TRUE(
      has(left.notes, "c10drun: 2 workers did not stop within --grace 0.4 s and are killed\n"));
}

TEST_F(AgentTest, PassesOnSignalsThatAreMeantForTheWorkers) {
  follow([](const Sent& one) -> std::optional<Reply> {
    if (one.header.op == List::op.code) kill(getpid(), SIGUSR2);
    return std::nullopt;
  });
  // No other process minds a SIGWINCH: a fault in the code under test may send it to all.
  const Launched done = launch(
      "trap 'echo saved; exit 0' WINCH; if [ $RANK = 1 ]; then touch $HOME_OF_TEST/ready; else "
      "while ! [ -e $HOME_OF_TEST/ready ]; do sleep 0.01; done; kill -WINCH $PPID; fi; "
      "sleep 1000 >/dev/null 2>&1 & wait");
  EXPECT_EQ(done.code, 0) << done.notes << done.fatal;
  EXPECT_TRUE(has(done.out, "[0] saved\n"));
  EXPECT_TRUE(has(done.out, "[1] saved\n"));
  EXPECT_TRUE(has(done.notes, "received SIGUSR2; not passed on, because no worker process"));
  EXPECT_EQ(done.notes.find("SIGWINCH"), std::string::npos) << "a terminal sends many";
}

TEST_F(AgentTest, LeavesWhenItIsAskedToAndSaysThatItHasHeard) {
  follow([this](const Sent& one) -> std::optional<Reply> {
    if (one.header.op != Exchange::op.code) return std::nullopt;
    GroupStatus asks = status(GroupPhase::formed, "");
    Notice other;  // for another node
    other.number = 4;
    other.ranks = {{1, 1}};
    Notice notice;
    notice.number = 5;
    notice.ranks = {{0, 0}};
    notice.reason = "maintenance";
    asks.notices = {other, notice};
    tell(asks);
    return std::nullopt;
  });
  const Launched left = launch("sleep 1000");
  EXPECT_EQ(left.code, 128 + SIGTERM) << left.notes << left.fatal;
  EXPECT_TRUE(has(left.notes, "this node was asked to leave: maintenance; stopping the workers\n"));
  EXPECT_EQ(asked(Acknowledge::op.code), 1);
  ASSERT_EQ(leaves().size(), 1u);
  EXPECT_EQ(leaves()[0].detail, "drained: maintenance");
}

// ---- the daemon and other launches --------------------------------------------------------------

TEST_F(AgentTest, SaysThatNoDaemonListensOrThatItRefuses) {
  follow([](const Sent& one) -> std::optional<Reply> {
    if (one.header.op != Hello::op.code) return std::nullopt;
    return failure(Code::permission_denied, "this job is not for you");
  });
  const Launched refused = launch("true");
  EXPECT_EQ(refused.code, exit_code::kUnreachable);
  EXPECT_TRUE(has(refused.fatal, " refused the connection: "));
  EXPECT_TRUE(has(refused.fatal, "this job is not for you"));
  options_.connect_timeout = 50ms;
  {
    const test::ListeningSocket closed;
    options_.daemon.daemons = {{"127.0.0.1", closed.port()}};
  }
  const Launched none = launch("true");
  EXPECT_EQ(none.code, exit_code::kUnreachable);
  EXPECT_TRUE(has(none.fatal, "cannot connect to a daemon at 127.0.0.1:"));
}

TEST_F(AgentTest, SaysThatAnotherLaunchHasThisName) {
  nodes_ = {"c10drun/nodes/host-b (pid 5)"};
  const Launched done = launch("true");
  EXPECT_EQ(done.code, 0) << done.notes << done.fatal;
  EXPECT_TRUE(has(done.notes, "another launch of this job is running on host-b (pid 5); "));
}

TEST_F(AgentTest, NamesTheFlagThatDiffersFromAnotherNode) {
  nodes_ = {"c10drun/nodes/host-b (pid 5)"};
  flags_ = "--nnodes=3\n--last-call=30 s\n";
  follow([](const Sent& one) -> std::optional<Reply> {
    if (one.header.op != Join::op.code) return std::nullopt;
    return failure(Code::size_mismatch, "another policy");
  });
  const Launched refused = launch("true");
  EXPECT_EQ(refused.code, exit_code::kUsage);
  EXPECT_EQ(refused.fatal,
            "--nnodes is 1 here and 3 on host-b (pid 5); give all nodes of the job the same value");
  flags_ = "--nnodes=1\n";
  EXPECT_TRUE(has(launch("true").fatal, "another policy"));
}

TEST_F(AgentTest, AJoinThatFailsHasTheCodeOfItsReason) {
  for (const auto& [code, expected] : {std::pair{Code::timed_out, exit_code::kTryAgain},
                                       {Code::rank_taken, exit_code::kUsage},
                                       {Code::quota_exceeded, exit_code::kUnreachable}}) {
    follow([code = code](const Sent& one) -> std::optional<Reply> {
      if (one.header.op != Join::op.code) return std::nullopt;
      return failure(code, "not now");
    });
    const Launched failed = launch("true");
    EXPECT_EQ(failed.code, expected);
    EXPECT_TRUE(has(failed.fatal, "not now"));
  }
}

}  // namespace
}  // namespace c10dd::run
