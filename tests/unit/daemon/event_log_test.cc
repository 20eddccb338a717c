// SPDX-License-Identifier: Apache-2.0
// The log lines that the events of a job become.
#include "daemon/shard/event_log.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "daemon/shard/caused_log.h"
#include "protocol/limits.h"
#include "protocol/ops.h"
#include "tests/unit/temporary_directory.h"

namespace c10dd::daemon {
namespace {

class EventLogTest : public testing::Test {
 protected:
  EventLogTest() {
    auto logger = std::make_shared<spdlog::logger>(
        "test", std::make_shared<spdlog::sinks::ostream_sink_st>(out_));
    logger->set_pattern("%l %v");
    spdlog::set_default_logger(logger);
    log_paces().clear();
  }
  ~EventLogTest() override { spdlog::set_default_logger(before_); }

  /// Returns what was logged since the last call.
  std::string logged() {
    std::string text = out_.str();
    out_.str("");
    return text;
  }
  std::string line_of(const core::Event& event) {
    log_.write("alice", "digits", "run-1", event);
    return logged();
  }

  std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
  std::ostringstream out_;
  EventLog log_;
};

TEST_F(EventLogTest, NamesTheJobAndTheCause) {
  EXPECT_EQ(line_of(core::BarrierTimedOut{"rank 1 is missing"}),
            "warning event=barrier_timed_out job=digits detail=\"rank 1 is missing\"\n");
  EXPECT_EQ(line_of(core::RankContested{"launch_replaced", "rank 0"}),
            "warning event=launch_replaced job=digits detail=\"rank 0\"\n");
  EXPECT_EQ(line_of(core::GenerationFormed{"world", 2, 8, "a member joined"}),
            "info event=generation_formed job=digits group=world generation=2 size=8 "
            "reason=\"a member joined\"\n");
  EXPECT_EQ(line_of(core::GenerationEnded{"world", 2, "rank 3 is lost"}),
            "warning event=generation_ended job=digits group=world generation=2 "
            "reason=\"rank 3 is lost\"\n");
  EXPECT_EQ(line_of(core::MembersStalled{"world", 2, "[1-2]", "step 7"}),
            "warning event=member_stalled job=digits group=world generation=2 ranks=[1-2] "
            "detail=\"step 7\"\n");
}

TEST_F(EventLogTest, SaysNothingOfEventsThatOnlyMetricsCount) {
  EXPECT_EQ(line_of(core::WaitEnded{}), "");
}

TEST_F(EventLogTest, RefusalsAreLimitedAndCounted) {
  const core::RankRefused refused{Join::op.code, Code::size_mismatch, "min 2"};
  EXPECT_EQ(line_of(refused),
            "warning event=join_refused job=digits op=join code=size_mismatch "
            "detail=\"min 2\"\n");
  EXPECT_EQ(line_of(core::RankRefused{Barrier::op.code, Code::rank_taken, "rank 0"}),
            "warning event=rank_taken job=digits op=barrier code=rank_taken "
            "detail=\"rank 0\"\n");
  for (unsigned i = 2; i < 3 * LogPaces::kOfKind.burst; ++i)
    log_.write("alice", "digits", "run-1", refused);
  const std::string lines = logged();
  EXPECT_LT(std::ranges::count(lines, '\n'), 2 * LogPaces::kOfKind.burst);
}

TEST_F(EventLogTest, WaitsThatAreGivenUpNameTheirProcessAndAreLimited) {
  const core::WaitGivenUp wait{.cause = "cancelled",
                               .peer = "10.0.0.1",
                               .pid = 17,
                               .blocked = std::chrono::milliseconds(6250),
                               .ranks = "[3]",
                               .others = 2,
                               .folded = 1,
                               .detail = "1 of 1 keys not found: /a"};
  EXPECT_EQ(line_of(wait),
            "warning event=wait_given_up job=digits run=run-1 peer=10.0.0.1 pid=17 cause=cancelled "
            "seconds=6.2 ranks=[3] others=2 folded=1 "
            "detail=\"1 of 1 keys not found: /a\"\n");
  core::WaitGivenUp of_old_client = wait;
  of_old_client.pid = 0;
  EXPECT_NE(line_of(of_old_client).find(" pid=unknown "), std::string::npos);
  for (unsigned i = 2; i < 3 * LogPaces::kOfKind.burst; ++i)
    log_.write("alice", "digits", "run-1", wait);
  EXPECT_LT(std::ranges::count(logged(), '\n'), 2 * LogPaces::kOfKind.burst);
}

TEST_F(EventLogTest, ADiagnosisHasALineUntilItDoesNotHold) {
  core::Diagnosed why{.diagnosis = {.state = Diagnosis::State::waiting,
                                    .kind = Diagnosis::Kind::missing,
                                    .since = {},
                                    .sentence = "key \"a\"; rank 0 waits",
                                    .ranks = {3, 4, 9},
                                    .hosts = {"node1", "node 2"},
                                    .waiting = 1,
                                    .evidence = {"not logged"}},
                      .age = std::chrono::milliseconds(2500)};
  EXPECT_EQ(line_of(why),
            "info event=diagnosis job=digits run=run-1 state=waiting kind=missing seconds=2.5 "
            "waiting=1 ranks=[3-4,9] hosts=\"[node1,node 2]\" "
            "detail=\"key \\\"a\\\"; rank 0 waits\"\n");
  EXPECT_EQ(line_of(why), "") << "it is counted";
  log_.write("alice", "digits", "run-2", why);
  EXPECT_NE(logged().find(" run=run-2 "), std::string::npos) << "another run has lines of its own";
  why.diagnosis.state = Diagnosis::State::stuck;
  why.diagnosis.ranks.clear();
  why.diagnosis.hosts.clear();
  why.diagnosis.sentence = "x\ny\xff";
  EXPECT_EQ(line_of(why),
            "warning event=diagnosis job=digits run=run-1 state=stuck kind=missing seconds=2.5 "
            "waiting=1 ranks=[] hosts=[] folded=1 detail=\"x?y?\"\n");
  const core::DiagnosisEnded over{Diagnosis::Kind::missing, std::chrono::seconds(12)};
  EXPECT_EQ(line_of(over),
            "info event=diagnosis_over job=digits run=run-1 kind=missing seconds=12.0\n");
  EXPECT_EQ(line_of(over), "") << "the end of a diagnosis gets one line";
  EXPECT_EQ(line_of(core::DiagnosisEnded{Diagnosis::Kind::lost, {}}), "") << "none was written";
}

TEST_F(EventLogTest, ADiagnosisNamesSoManyHosts) {
  core::Diagnosed many{.diagnosis = {.state = Diagnosis::State::stuck, .since = {}}};
  many.diagnosis.hosts.assign(limits::kMissingNamed, "h");
  EXPECT_NE(line_of(many).find(",h] "), std::string::npos);
  many.diagnosis.hosts.emplace_back("last");
  log_.write("alice", "other", "", many);
  const std::string line = logged();
  EXPECT_NE(line.find(" job=other run=\"\" state=stuck "), std::string::npos) << line;
  EXPECT_NE(line.find(",h,...] "), std::string::npos) << line;
}

TEST_F(EventLogTest, UntrustedNamesAreMadePrintable) {
  EXPECT_EQ(line_of(core::GenerationEnded{"a\nevent=b", 1, "x\ny \"=\x1b"}),
            "warning event=generation_ended job=digits group=\"a?event=b\" generation=1 "
            "reason=\"x?y \\\"=?\"\n");
  log_.write("alice", "digits event=engine_lost", "", core::BarrierTimedOut{"d"});
  EXPECT_EQ(logged(),
            "warning event=barrier_timed_out job=\"digits event=engine_lost\" detail=\"d\"\n");
}

TEST_F(EventLogTest, AnOptionalFieldIsLeftOutIfItIsEmpty) {
  log_info("event=a{} n={}{}", OptionalField{"b", ""}, 7, OptionalField{"c", "d e"});
  EXPECT_EQ(logged(), "info event=a n=7 c=\"d e\"\n");
}

TEST_F(EventLogTest, ACheckpointHasItsSizeOrTheReason) {
  const TemporaryDirectory copy;
  std::filesystem::create_directory(copy.path() + "/inner");
  std::ofstream(copy.path() + "/inner/table") << "12345";
  std::ofstream(copy.path() + "/log") << "67";
  log_checkpoint(copy.path(), {});
  EXPECT_EQ(logged(), "info event=checkpoint_written path=\"" + copy.path() + "\" bytes=7\n");
  log_checkpoint("/copy", failure(Code::invalid_argument, "it is there"));
  EXPECT_EQ(logged(),
            "warning event=checkpoint_refused path=\"/copy\" code=invalid_argument "
            "detail=\"it is there\"\n");
}

}  // namespace
}  // namespace c10dd::daemon
