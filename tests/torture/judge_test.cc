// SPDX-License-Identifier: Apache-2.0
// The judge of the kill loop uses the right judge of histories for each kind of work, and finds
// faults that only a whole round shows. The judges of histories are tested in tests/history.
#include "tests/torture/judge.h"

#include <gtest/gtest.h>

#include "tests/torture/desk.h"

namespace c10dd::torture {
namespace {

constexpr std::uint32_t kAlive = 1;
constexpr std::uint32_t kDead = 2;

/// A round to which a test adds calls. Each call begins after the previous one has ended.
class Told {
 public:
  Told() {
    round_.prefix = "r/";
    round_.killed = {kDead};
  }

  Op& call(Request request, std::optional<Reply> reply, std::uint32_t client = kAlive) {
    const std::uint64_t invoked = ++time_;
    const std::uint64_t answered = reply ? ++time_ : 0;
    auto& ops = round_.histories[client].ops;
    ops.reserve(100);
    ops.push_back(
        history::written_call(client, std::move(request), invoked, answered, std::move(reply)));
    return ops.back();
  }
  Op& told(Request request, ReplyBody body) {
    return call(std::move(request), Reply(std::move(body)));
  }
  void write(const std::string& key, const std::string& value, std::uint64_t revision) {
    told(Set{"r/" + key, value, {}, false}, Written{revision});
  }
  void at_end(const std::string& key, const std::string& value, std::uint64_t revision = 1) {
    round_.state["r/" + key] = {value, revision};
  }

  Verdict verdict() {
    round_.ended = time_ + 1;
    return Judge(round_).judge();
  }
  RoundRecord& round() { return round_; }

 private:
  RoundRecord round_;
  std::uint64_t time_ = 0;
};

/// Expects faults of only this kind, and this many.
void expect_only(Told& told, Fault fault, std::uint64_t count = 1) {
  const Verdict verdict = told.verdict();
  std::string all;
  for (const std::string& text : verdict.evidence) all += text + "\n";
  EXPECT_EQ(verdict.of(fault), count) << all;
  EXPECT_EQ(verdict.faults(), count) << all;
}
void expect_good(Told& told) { expect_only(told, Fault::lost, 0); }

TEST(JudgeCalls, WantAnAnswerUnlessTheirProcessWasKilled) {
  Told told;
  told.call(Check{{"r/x"}}, std::nullopt, kDead);
  expect_good(told);
  told.call(Check{{"r/x"}}, std::nullopt);
  expect_only(told, Fault::failed);
}

TEST(JudgeCalls, MayNotFail) {
  const Reply late = failure(Code::timed_out, "too late");
  Told told;
  told.call(QueuePop{"r/impatient", std::chrono::milliseconds(20)}, late);
  told.call(QueuePop{"r/impatient", {}}, failure(Code::not_found, ""));
  told.call(Get{"r/x", {}}, failure(Code::not_found, ""));
  told.call(Watch{"r/reg/", true, 1, 0, {}}, late);
  expect_good(told);
  told.call(QueuePop{"r/patient", kPatience}, late);
  expect_only(told, Fault::failed);
  told.call(Check{{"r/x"}}, late);
  expect_only(told, Fault::failed, 2);
}

TEST(JudgeRegisters, MustHaveTheNewestAtTheEnd) {
  Told told;
  told.write("reg/1", "a", 10);
  told.write("reg/1", "b", 12);
  told.at_end("reg/1", "b", 12);
  expect_good(told);
  told.at_end("reg/1", "a", 10);
  expect_only(told, Fault::lost);
}

TEST(JudgeCounters, MustHaveTheSumAtTheEnd) {
  for (const char* key : {"sum", "own/1"}) {
    Told told;
    told.told(Add{std::string("r/") + key, 1}, Counter{1});
    told.at_end(key, "1");
    expect_good(told);
    told.at_end(key, "2");
    expect_only(told, Fault::twice);
  }
}

TEST(JudgeLogs, MustHaveEachWordAtTheEnd) {
  Told told;
  told.told(Append{"r/log/0", "a;"}, Appended{2});
  told.at_end("log/0", "a;");
  expect_good(told);
  told.at_end("log/0", "a;a;");
  expect_only(told, Fault::twice);
}

TEST(JudgeChains, MustLeadToTheEnd) {
  Told told;
  told.told(CompareSet{"r/chain", "", "a"}, Compared{true, true, {}});
  told.at_end("chain", "a");
  expect_good(told);
  told.at_end("chain", "");
  expect_only(told, Fault::lost);
}

TEST(JudgeAnyKey, WantsAnOrderOfItsCalls) {
  for (const char* key : {"any/0/1", "ping/1/1", "pong/1/1"}) {
    Told told;
    told.write(key, "a", 1);
    told.at_end(key, "a");
    expect_good(told);
    told.told(Check{{std::string("r/") + key}}, Checked{false});
    expect_only(told, Fault::order);
  }
}

TEST(JudgeGroups, AreSeenWholeOrNotAtAll) {
  std::vector<Bytes> keys;
  for (unsigned i = 0; i < kGroup; ++i) keys.push_back("r/group/" + std::to_string(i));
  Told told;
  told.told(MultiSet{keys, std::vector<Bytes>(kGroup, "a")}, Written{});
  Op& get = told.told(MultiGet{keys, {}}, Values{std::vector<Bytes>(kGroup, "a"), {}});
  for (unsigned i = 0; i < kGroup; ++i) told.at_end("group/" + std::to_string(i), "a");
  expect_good(told);
  get.reply = Reply(ReplyBody(Values{std::vector<Bytes>(kGroup, "b"), {}}));
  expect_only(told, Fault::order);
  get.reply = Reply(ReplyBody(Values{{"a", "a", "b", "a"}, {}}));
  expect_only(told, Fault::torn);
  get.reply = Reply(ReplyBody(Values{std::vector<Bytes>(kGroup, "a"), {}}));
  told.at_end("group/1", "b");
  expect_only(told, Fault::torn);
  told.round().state.erase("r/group/1");
  expect_only(told, Fault::torn);
}

TEST(JudgeBanks, NeitherMakeNorLoseMoney) {
  Told told;
  Transact transfer;
  transfer.actions = {{Action::Kind::set, "r/bank/turn", "1", 0, {}, false},
                      {Action::Kind::add, "r/bank/a", "", -5, {}, false},
                      {Action::Kind::add, "r/bank/b", "", 5, {}, false},
                      {Action::Kind::add, "r/bank/count", "", 1, {}, false}};
  Op& made = told.told(transfer, Transacted{true, 0, 1, {-5, 5, 1}});
  told.at_end("bank/count", "1");
  told.at_end("bank/a", "-5");
  told.at_end("bank/b", "5");
  expect_good(told);
  told.at_end("bank/a", "-4");
  expect_only(told, Fault::torn);
  told.at_end("bank/a", "-10");
  told.at_end("bank/b", "10");
  expect_only(told, Fault::twice);
  told.at_end("bank/a", "0");
  told.at_end("bank/b", "0");
  told.at_end("bank/count", "0");
  EXPECT_GE(told.verdict().of(Fault::lost), 2u);
  told.at_end("bank/a", "-5");
  told.at_end("bank/b", "5");
  told.at_end("bank/count", "1");
  made.reply = Reply(ReplyBody(Transacted{true, 0, 1, {-5, 6, 1}}));
  expect_only(told, Fault::torn);
  made.reply = Reply(ReplyBody(Transacted{true, 0, 1, {-5, 5, 1}}));
  told.told(MultiGet{{"r/bank/a", "r/bank/b"}, {}}, Values{{"-5", "4"}, {}});
  expect_only(told, Fault::torn);
}

TEST(JudgeQueues, ForgiveWhatTheKilledHadPopped) {
  Told told;
  told.told(QueuePush{"r/impatient", "a"}, Counted{1});
  expect_only(told, Fault::lost);
  told.call(QueuePop{"r/impatient", {}}, std::nullopt, kDead);
  expect_good(told);
  told.call(QueuePop{"r/impatient", {}}, Reply(ReplyBody(Popped{"a"})), kDead);
  told.told(QueuePop{"r/impatient", {}}, Popped{"a"});
  expect_good(told);
  told.told(QueuePop{"r/impatient", {}}, Popped{"a"});
  expect_only(told, Fault::twice);
}

TEST(JudgeWatches, ShowEveryChangeOnceInOrder) {
  const auto judged = [](std::vector<Change> changes, Revision next) {
    Told told;
    told.write("reg/1", "a", 10);
    told.write("reg/1", "b", 12);
    told.at_end("reg/1", "b", 12);
    told.told(Watch{"r/reg/", true, 1, 0, {}}, Changes{std::move(changes), next, 0});
    return told.verdict();
  };
  const Change first{10, false, "r/reg/1", "a"};
  const Change second{12, false, "r/reg/1", "b"};
  EXPECT_EQ(judged({first, second}, 13).faults(), 0u);
  EXPECT_EQ(judged({second}, 13).of(Fault::watch), 1u);
}

TEST(JudgeProcesses, SayThemselvesWhatIsWrong) {
  Told told;
  told.round().histories[kAlive].flaws = {"the watch never showed its last key"};
  expect_only(told, Fault::watch);
  told.round().histories[kAlive].flaws = {"a barrier was left early"};
  expect_only(told, Fault::other);
  told.round().histories[kAlive].sessions_lost = 1;
  expect_only(told, Fault::other, 2);
}

TEST(JudgeHistories, SurviveTheirProcess) {
  const std::string path = testing::TempDir() + "/judge_test_history";
  const CompareSet swap{"k", std::string("o\0ld", 4), "new"};
  {
    Recorder recorder(path, 7);
    EXPECT_TRUE(recorder.make(swap,
                              [](const CompareSet&) {
                                return Compared{true, true, {}};
                              })
                    .good());
    const auto fail = [](const Add&) -> Counter { throw NotFound("no\tsuch\nkey"); };
    EXPECT_EQ(recorder.make(Add{"n", -3}, fail).code(), Code::not_found);
    EXPECT_TRUE(recorder.make(Exchange{}, [](const Exchange&) { return Exchanged{}; }).good());
    recorder.flaw("bad\nthing");
    recorder.totals(3, 1);
  }
  const History history = read_history(path, 7);
  ASSERT_EQ(history.ops.size(), 3u);
  const Op& first = history.ops[0];
  EXPECT_EQ(std::get<CompareSet>(first.request).expected, swap.expected);
  EXPECT_TRUE(first.good() && first.told<Compared>().swapped);
  EXPECT_LE(first.invoked, first.answered);
  EXPECT_EQ(first.client, 7u);
  EXPECT_EQ(history.ops[1].reply->error().detail, "no\tsuch\nkey");
  EXPECT_EQ(std::get<Add>(history.ops[1].request).delta, -3);
  EXPECT_TRUE(history.ops[2].good());
  EXPECT_EQ(history.flaws, std::vector<std::string>{"bad thing"});
  EXPECT_EQ(history.reissued, 3u);
  EXPECT_EQ(history.sessions_lost, 1u);
  ASSERT_EQ(remove(path.c_str()), 0);
}

}  // namespace
}  // namespace c10dd::torture
