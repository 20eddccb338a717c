// SPDX-License-Identifier: Apache-2.0
// A group that is reported to a daemon, which the test plays: what the daemon learns, what failures
// say, and the end of a group that can never go on.
#include "collectives/reported_group.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collectives/wording.h"
#include "tests/unit/collectives/scripted_backend.h"
#include "tests/unit/collectives/thread_ranks.h"
#include "tests/unit/temporary_directory.h"

namespace c10dd::collectives {
namespace {

using namespace std::chrono_literals;
using test::kAsync;

constexpr std::uint64_t kId = 77;
const std::string kSentence = "rank 5 on host-b (pid 7) has issued another collective; 1 waits";

ActivityDiagnosis diagnosis(std::vector<RankRange> ranks = {{5, 5}}) {
  return {2, kSentence, std::move(ranks), {kId}, {}};
}

ActivityDiagnosis hopeless() {
  ActivityDiagnosis said = diagnosis();
  said.hopeless = {kId};
  return said;
}

/// Rank 0 of a group of two, which are ranks 4 and 5 of the job.
class Reported : public testing::Test {
 protected:
  ~Reported() override { group.reset(); }

  void open(GroupOptions options = {}, std::uint64_t id = kId, Rank size = 2) {
    options.timeout = 60s;
    World world{.size = size, .generation = 3, .name = "pair", .kind = "tp"};
    for (Rank rank = 0; rank < size; ++rank) world.members.push_back({4 + rank, {"host-b", 7}});
    GroupContext context;
    const auto reported = ReportedGroup::attach(link(), options, context);
    group = group_over(std::make_shared<test::ScriptedBackend>(script), std::move(world),
                       std::move(options), std::move(context));
    reported->open(id, *group);
  }

  /// The daemon says that the group can never go on.
  void say_hopeless() {
    const std::lock_guard lock(calling_);
    watched->hopeless(hopeless());
  }

  /// Issues a barrier, and ends it with this failure.
  WorkPtr fail(const Failure& seen) {
    const std::size_t before = script.started();
    const WorkPtr work = group->barrier(kAsync);
    EXPECT_TRUE(script.await_started(before + 1));
    script.end(before, seen);
    EXPECT_THROW(work->wait(), Error);
    return work;
  }
  static Failure late() {
    Failure seen = failure(Code::timed_out, "barrier 0 timed out after 60 s");
    seen.missing.emplace_back();  // rank 0
    return seen;
  }

  test::BackendScript script;
  std::shared_ptr<AbortableGroup> group;
  // What the daemon has got.
  std::optional<client::WatchedGroup> watched;
  std::vector<std::uint64_t> closed;
  std::atomic<int> asked = 0;
  std::atomic<bool> asked_anew = false;
  std::optional<ActivityDiagnosis> answer;

 private:
  ActivityLink link() {
    return {.job = "llm",
            .open = [this](client::WatchedGroup opened) { watched = std::move(opened); },
            .close =
                [this](std::uint64_t id) {
                  const std::lock_guard lock(calling_);  // waits until hopeless() has returned
                  closed.push_back(id);
                },
            .explain =
                [this](std::uint64_t id, bool anew) {
                  EXPECT_EQ(id, kId);
                  asked_anew = anew;
                  ++asked;
                  return answer;
                }};
  }

  std::mutex calling_;
};

TEST_F(Reported, TheDaemonLearnsWhoTheGroupIsHowFarItIsAndWhenItHasGone) {
  open();
  ASSERT_TRUE(watched);
  const OpenedGroup& opened = watched->opened;
  EXPECT_EQ(opened.process_group, kId);
  EXPECT_EQ(opened.name, "pair");
  EXPECT_EQ(opened.kind, "tp");
  EXPECT_EQ(opened.generation, 3u);
  EXPECT_EQ(opened.size, 2u);
  EXPECT_EQ(opened.rank, 0u);
  EXPECT_EQ(opened.job_rank, 4u);
  const WorkPtr work = group->barrier(kAsync);
  const GroupActivity activity = watched->read().activity;
  EXPECT_EQ(activity.collectives.issued, 1u);
  ASSERT_EQ(activity.oldest.size(), 1u);
  EXPECT_EQ(activity.oldest[0].name, "barrier");
  EXPECT_TRUE(closed.empty());
  group.reset();  // although its work is kept
  EXPECT_EQ(closed, std::vector<std::uint64_t>{kId});
}

TEST_F(Reported, AGroupOfOneRankOrWithoutANumberIsNotReported) {
  open({}, kId, 1);
  EXPECT_FALSE(watched);
  group.reset();
  open({}, 0);
  EXPECT_FALSE(watched);
  EXPECT_EQ(fail(late())->error(),
            "barrier 0 timed out after 60 s; check the logs or a stack trace "
            "of these ranks; rank 0 of group \"pair\" is rank 4 of the job");
  group.reset();
  EXPECT_TRUE(closed.empty());
  EXPECT_EQ(asked, 0);
}

TEST_F(Reported, AGroupThatCanNeverGoOnIsAbortedWithTheDaemonsSentence) {
  open();
  const WorkPtr work = group->barrier(kAsync);
  ASSERT_TRUE(script.await_started(1));
  say_hopeless();
  EXPECT_THROW(work->wait(), Aborted);
  EXPECT_EQ(work->error(), "process group \"pair\" aborted: " + kSentence);
  ASSERT_EQ(work->failed_ranks().size(), 1u);
  EXPECT_EQ(work->failed_ranks()[0].rank, 1u) << "of the group";
  EXPECT_EQ(work->failed_ranks()[0].host, "host-b");
  EXPECT_EQ(work->failed_ranks()[0].pid, 7u);
  EXPECT_EQ(group->barrier(kAsync)->error(), work->error());
  EXPECT_EQ(asked, 0) << "the sentence says all";
}

TEST_F(Reported, IfTheCallerDoesNotWantAnAbortOnlyFlightRecordsAreWritten) {
  const TemporaryDirectory folder;
  ::setenv("C10DD_FLIGHT_DIR", folder.path().c_str(), 1);
  ::unsetenv("C10DD_FLIGHT");  // the tests' environment switches it off
  open({.abort_when_stuck = false});
  const WorkPtr work = group->barrier(kAsync);
  ASSERT_TRUE(script.await_started(1));
  say_hopeless();
  script.end(0);
  EXPECT_NO_THROW(work->wait());
  group.reset();  // waits until they are written
  ::unsetenv("C10DD_FLIGHT_DIR");
  ::setenv("C10DD_FLIGHT", "off", 1);
  EXPECT_TRUE(std::filesystem::exists(folder.path() + "/c10dd-flight-llm-4"));
}

TEST_F(Reported, ItIsNotAbortedIfTheCallerDoesNotWantIt) {
  open({.abort_when_stuck = false});
  answer = hopeless();
  const WorkPtr work = fail(failure(Code::unavailable, "lost rank 1"));
  EXPECT_EQ(work->error(), "lost rank 1; diagnosis: " + kSentence);
  EXPECT_EQ(work->code(), Code::unavailable);
}

TEST_F(Reported, ACallbackOfTheAbortMayDestroyTheGroup) {
  for (int round = 0; round < 20; ++round) {
    open();
    const std::size_t before = script.started();
    std::promise<void> dropped;
    const WorkPtr work = group->barrier(kAsync);
    work->on_end([&](Work&) {
      group.reset();
      dropped.set_value();
    });
    ASSERT_TRUE(script.await_started(before + 1));
    say_hopeless();
    dropped.get_future().wait();
    EXPECT_EQ(work->code(), Code::aborted);
    EXPECT_EQ(closed.size(), static_cast<std::size_t>(round) + 1);
  }
}

TEST_F(Reported, AGroupMayBeDestroyedWhileItIsAborted) {
  for (int round = 0; round < 20; ++round) {
    open();
    const std::size_t before = script.started();
    const WorkPtr work = group->barrier(kAsync);
    ASSERT_TRUE(script.await_started(before + 1));
    say_hopeless();
    group.reset();
    EXPECT_EQ(work->code(), Code::aborted);
  }
}

TEST_F(Reported, ATimeOutEndsWithTheDiagnosisAndItsRanksAreTheMissing) {
  open();
  answer = diagnosis();
  const WorkPtr work = fail(late());
  EXPECT_EQ(work->code(), Code::timed_out);
  EXPECT_EQ(work->error(), "barrier 0 timed out after 60 s; diagnosis: " + kSentence +
                               "; rank 1 of group \"pair\" is rank 5 of the job");
  ASSERT_EQ(work->failed_ranks().size(), 1u);
  EXPECT_EQ(work->failed_ranks()[0].rank, 1u);
  EXPECT_EQ(work->failed_ranks()[0].cause, "not_arrived");
  EXPECT_EQ(asked, 1);
  EXPECT_FALSE(asked_anew);
}

TEST_F(Reported, ADiagnosisOfOtherRanksLeavesTheMissing) {
  open();
  answer = diagnosis({{0, 3}, {6, 9}});
  EXPECT_EQ(fail(late())->failed_ranks().at(0).rank, 0u);
}

TEST_F(Reported, WithoutAnAnswerATimeOutSaysWhatTheBackendKnows) {
  open();
  const std::string alone =
      "barrier 0 timed out after 60 s; check the logs or a stack trace of "
      "these ranks; rank 0 of group \"pair\" is rank 4 of the job";
  EXPECT_EQ(fail(late())->error(), alone);
  EXPECT_EQ(asked, 1);
}

TEST_F(Reported, AMessageHasADiagnosisOnlyIfItConcernsItsPeer) {
  script.name = "takes messages";
  for (const bool concerns : {true, false}) {
    open();
    answer = concerns ? diagnosis() : diagnosis({{4, 4}});
    float value = 0;
    const std::size_t before = script.started();
    const WorkPtr work = group->recv(tensor_of(&value, 1), 1, 0, kAsync);
    ASSERT_TRUE(script.await_started(before + 1));
    script.end_message(before, failure(Code::timed_out, "recv 0 timed out"));
    EXPECT_EQ(test::contains(work->error(), "; diagnosis: " + kSentence), concerns)
        << work->error();
  }
}

TEST_F(Reported, TheLossOfARankIsAConsequenceIfTheGroupCanNeverGoOn) {
  open();
  answer = diagnosis();
  EXPECT_EQ(fail(failure(Code::unavailable, "lost rank 1"))->error(), "lost rank 1");
  EXPECT_TRUE(asked_anew) << "the other ranks have aborted it since";
  group.reset();
  open();
  answer = hopeless();
  const WorkPtr work = fail(failure(Code::aborted, "rank 1 aborted: it was stuck"));
  EXPECT_EQ(work->code(), Code::aborted);
  EXPECT_EQ(work->error(), "process group \"pair\" aborted: " + kSentence) << "as on rank 1";
  EXPECT_EQ(work->failed_ranks().at(0).rank, 1u);
}

TEST_F(Reported, TheReasonOfAnAbortStays) {
  open();
  answer = hopeless();
  const WorkPtr own = group->barrier(kAsync);
  group->abort("enough");
  EXPECT_THROW(own->wait(), Aborted);
  EXPECT_EQ(own->error(), "process group \"pair\" aborted: enough");
  EXPECT_EQ(asked, 0);
  group.reset();
  open();
  const std::size_t before = script.started();
  const WorkPtr lost = group->barrier(kAsync);
  ASSERT_TRUE(script.await_started(before + 1));
  group->abort(failure(Code::aborted, "rank 1 is lost"));  // at the end of the generation
  EXPECT_THROW(lost->wait(), Aborted);
  EXPECT_EQ(lost->error(), "process group \"pair\" aborted: rank 1 is lost");
}

}  // namespace
}  // namespace c10dd::collectives
