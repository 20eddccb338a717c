// SPDX-License-Identifier: Apache-2.0
// The judge of the kill loop finds nothing in a round that is right, and each fault that is
// planted.
#include "tests/torture/judge.h"

#include <gtest/gtest.h>

#include "tests/torture/desk.h"

namespace c10dd::torture {
namespace {

constexpr unsigned kAlive = 1;
constexpr unsigned kDead = 2;

/// A round that grows by a call at a time, each after the one before.
class Told {
 public:
  Told() {
    round_.prefix = "r/";
    round_.killed = {kDead};
  }

  Call& call(What what, const std::string& key, const std::string& input = {},
             unsigned worker = kAlive) {
    Call call = call_of(what, "r/" + key, input);
    call.worker = worker;
    call.invoked = ++time_;
    call.answered = ++time_;
    auto& calls = round_.histories[worker].calls;
    calls.reserve(100);
    calls.push_back(std::move(call));
    return calls.back();
  }
  /// The same, of a process that was killed before its answer.
  Call& open(What what, const std::string& key, const std::string& input = {}) {
    Call& made = call(what, key, input, kDead);
    made.answered = 0;
    return made;
  }
  void write(const std::string& key, const std::string& value, std::uint64_t revision) {
    call(What::set, key, value).revision = revision;
  }
  void read(const std::string& key, const std::string& value, std::uint64_t revision) {
    Call& get = call(What::get, key);
    get.yes = true;
    get.value = value;
    get.revision = revision;
  }
  void add(const std::string& key, std::int64_t sum) {
    Call& made = call(What::add, key);
    made.delta = 1;
    made.number = sum;
  }
  Call& pop(const std::string& queue, const std::string& item, unsigned worker = kAlive) {
    Call& made = call(What::pop, queue, {}, worker);
    made.yes = true;
    made.value = item;
    return made;
  }
  void at_end(const std::string& key, const std::string& value, std::uint64_t revision = 1) {
    round_.state["r/" + key] = {value, revision};
  }
  void seen(const std::string& key, const std::string& value, std::uint64_t revision) {
    round_.histories[kAlive].seen.push_back({kAlive, revision, "r/" + key, value});
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

/// Exactly this one kind of fault, so often.
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
  told.open(What::exists, "x");
  expect_good(told);
  told.call(What::exists, "x").answered = 0;
  expect_only(told, Fault::failed);
}

TEST(JudgeCalls, MayNotFail) {
  Told told;
  told.call(What::exists, "x").error = "timed_out: too late";
  expect_only(told, Fault::failed);
}

TEST(JudgeRegisters, AreRightWhenTheNewestIsThere) {
  Told told;
  told.write("reg/1", "a", 10);
  told.read("reg/1", "a", 10);
  told.write("reg/1", "b", 12);
  told.at_end("reg/1", "b", 12);
  expect_good(told);
}

TEST(JudgeRegisters, ALostWriteIsFound) {
  Told told;
  told.write("reg/1", "a", 10);
  told.write("reg/1", "b", 12);
  told.at_end("reg/1", "a", 10);
  expect_only(told, Fault::lost);
}

TEST(JudgeRegisters, AReadThatDidNotSeeAnAnsweredWriteIsFound) {
  Told told;
  told.write("reg/1", "a", 10);
  told.write("reg/1", "b", 12);
  told.read("reg/1", "a", 10);
  told.at_end("reg/1", "b", 12);
  expect_only(told, Fault::lost);
}

TEST(JudgeRegisters, AWriteOfAKilledProcessMayBeThere) {
  Told told;
  told.write("reg/1", "a", 10);
  told.open(What::set, "reg/1", "b");
  told.at_end("reg/1", "b", 11);
  expect_good(told);
  told.at_end("reg/1", "c", 11);
  expect_only(told, Fault::order);
}

TEST(JudgeRegisters, ARevisionGivenTwiceIsFound) {
  Told told;
  told.write("reg/1", "a", 10);
  Call& other = told.call(What::set, "reg/1", "b");
  other.revision = 10;
  other.invoked = 1;  // beside the first
  told.at_end("reg/1", "b", 10);
  expect_only(told, Fault::lost);
}

TEST(JudgeCounters, CountAcknowledgedAddsAndPerhapsThoseOfTheKilled) {
  Told told;
  told.add("sum", 1);
  told.add("sum", 2);
  told.at_end("sum", "2");
  expect_good(told);
  told.open(What::add, "sum");
  told.at_end("sum", "3");
  expect_good(told);
}

TEST(JudgeCounters, AnAddAppliedTwiceIsFound) {
  Told told;
  told.add("sum", 1);
  told.add("sum", 3);
  told.at_end("sum", "3");
  expect_only(told, Fault::twice);
}

TEST(JudgeCounters, ALostAddIsFound) {
  Told told;
  told.add("sum", 1);
  told.add("sum", 2);
  told.add("sum", 2);
  told.at_end("sum", "2");
  EXPECT_GE(told.verdict().of(Fault::lost), 1u);
}

TEST(JudgeLogs, HoldEachWordOnceAtTheToldPlace) {
  Told told;
  told.call(What::append, "log/0", "a;").number = 2;
  told.call(What::append, "log/0", "b;").number = 4;
  told.open(What::append, "log/0", "c;");
  told.at_end("log/0", "a;b;");
  expect_good(told);
  told.at_end("log/0", "a;b;c;");
  expect_good(told);
  told.at_end("log/0", "a;b;b;");
  expect_only(told, Fault::twice);
  told.at_end("log/0", "a;c;");
  expect_only(told, Fault::lost);
  told.at_end("log/0", "b;a;");
  expect_only(told, Fault::order, 2);
  told.at_end("log/0", "a;b;x;");
  expect_only(told, Fault::order);
}

TEST(JudgeChains, LeadBackToTheBeginning) {
  const auto swap = [](Told& told, const std::string& from, const std::string& to) {
    Call& call = told.call(What::compare_set, "chain", to);
    call.expected = from;
    call.yes = true;
  };
  Told told;
  swap(told, "", "a");
  swap(told, "a", "b");
  told.at_end("chain", "b");
  expect_good(told);
  swap(told, "a", "c");
  EXPECT_GE(told.verdict().of(Fault::lost), 1u);
  Told lost;
  swap(lost, "", "a");
  lost.at_end("chain", "");
  expect_only(lost, Fault::lost);
}

TEST(JudgeGroups, AreSeenWholeOrNotAtAll) {
  Told told;
  told.call(What::multi_set, "group/", "a");
  Call& get = told.call(What::multi_get, "group/");
  get.yes = true;
  get.value = "a";
  for (unsigned i = 0; i < kGroup; ++i) told.at_end("group/" + std::to_string(i), "a");
  expect_good(told);
  get.value = "b";
  expect_only(told, Fault::order);
  get.yes = false;
  expect_only(told, Fault::torn);
}

TEST(JudgeBanks, NeitherMakeNorLoseMoney) {
  Told told;
  Call& transfer = told.call(What::transfer, "bank/", "1");
  transfer.delta = 5;
  transfer.yes = true;
  transfer.value = "-5 5";
  transfer.number = 1;
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
}

TEST(JudgeQueues, EachItemIsPoppedOnce) {
  Told told;
  told.call(What::push, "impatient", "a");
  expect_only(told, Fault::lost);
  told.pop("impatient", "a", kDead);
  expect_good(told);
  told.pop("impatient", "a");
  expect_good(told);
  told.pop("impatient", "a");
  expect_only(told, Fault::twice);
}

TEST(JudgeQueues, AnItemMayGoDownWithAPopOfAKilledProcess) {
  Told told;
  told.call(What::push, "impatient", "a");
  told.open(What::pop, "impatient");
  expect_good(told);
  told.call(What::push, "impatient", "b");
  expect_only(told, Fault::lost);
}

TEST(JudgeQueues, AnItemThatNobodyPushedIsFound) {
  Told told;
  told.pop("impatient", "a");
  expect_only(told, Fault::order);
}

TEST(JudgeQueues, PatientPopsKeepTheOrder) {
  Told told;
  told.call(What::push, "patient", "a");
  told.call(What::push, "patient", "b");
  const std::uint64_t before = told.pop("patient", "b").invoked;
  told.pop("patient", "a");
  expect_only(told, Fault::order);
  told.round().first_kill = before;
  expect_good(told);
}

TEST(JudgeAnyKey, WantsAnOrderOfItsCalls) {
  Told told;
  told.write("any/0/1", "a", 1);
  told.call(What::exists, "any/0/1").yes = true;
  told.at_end("any/0/1", "a");
  expect_good(told);
  told.call(What::exists, "any/0/1").yes = false;
  expect_only(told, Fault::order);
}

TEST(JudgeWatches, ShowEveryChangeOnceInOrder) {
  const auto written = [] {
    Told told;
    told.write("reg/1", "a", 10);
    told.write("reg/1", "b", 12);
    told.write("reg/1", "c", 13);
    told.at_end("reg/1", "c", 13);
    return told;
  };
  Told right = written();
  right.seen("reg/1", "a", 10);
  right.seen("reg/1", "b", 12);
  expect_good(right);
  Told gap = written();
  gap.seen("reg/1", "a", 10);
  gap.seen("reg/1", "c", 13);
  expect_only(gap, Fault::watch);
  Told again = written();
  again.seen("reg/1", "a", 10);
  again.seen("reg/1", "a", 10);
  expect_only(again, Fault::watch);
  Told made_up = written();
  made_up.seen("reg/1", "a", 10);
  made_up.seen("reg/1", "x", 11);
  expect_only(made_up, Fault::watch);
}

TEST(JudgeHistories, SurviveTheirProcess) {
  const std::string path = testing::TempDir() + "/judge_test_history";
  {
    Recorder recorder(path, 7);
    Call call = call_of(What::compare_set, "k", "new");
    call.expected = "old";
    EXPECT_TRUE(recorder.make(call, [](Call& c) { c.yes = true; }));
    Call failing = call_of(What::add, "n");
    failing.delta = -3;
    EXPECT_FALSE(recorder.make(failing, [](Call&) { throw NotFound("no\tsuch\nkey"); }));
    recorder.saw({7, 5, "k", "v"});
    recorder.flaw("bad");
    recorder.totals(3, 1);
  }
  const History history = read_history(path, 7);
  ASSERT_EQ(history.calls.size(), 2u);
  EXPECT_EQ(history.calls[0].expected, "old");
  EXPECT_TRUE(history.calls[0].good() && history.calls[0].yes);
  EXPECT_LE(history.calls[0].invoked, history.calls[0].answered);
  EXPECT_EQ(history.calls[1].error, "not_found: no such key");
  EXPECT_EQ(history.calls[1].delta, -3);
  ASSERT_EQ(history.seen.size(), 1u);
  EXPECT_EQ(history.seen[0].revision, 5u);
  EXPECT_EQ(history.flaws, std::vector<std::string>{"bad"});
  EXPECT_EQ(history.reissued, 3u);
  EXPECT_EQ(history.sessions_lost, 1u);
  ASSERT_EQ(remove(path.c_str()), 0);
}

}  // namespace
}  // namespace c10dd::torture
