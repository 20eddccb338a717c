// SPDX-License-Identifier: Apache-2.0
// Each judge of histories finds nothing in a correct history, and finds each planted fault.
#include <gtest/gtest.h>

#include <deque>

#include "tests/history/keys.h"
#include "tests/history/queues.h"
#include "tests/history/watches.h"

namespace c10dd::history {
namespace {

constexpr std::uint32_t kAlive = 1;
constexpr std::uint32_t kDead = 2;
const Bytes kKey = "k";

/// A history to which a test adds calls. Each call begins after the previous one has ended.
class Told {
 public:
  Op& call(Request request, std::optional<Reply> reply, std::uint32_t client = kAlive) {
    const std::uint64_t invoked = ++time_;
    const std::uint64_t answered = reply ? ++time_ : 0;
    ops_.push_back(written_call(client, std::move(request), invoked, answered, std::move(reply)));
    return ops_.back();
  }
  Op& told(Request request, ReplyBody body, std::uint32_t client = kAlive) {
    return call(std::move(request), Reply(std::move(body)), client);
  }
  /// Adds a call of a process that was killed before it got the reply.
  Op& unanswered(Request request) { return call(std::move(request), std::nullopt, kDead); }

  Op& set(const Bytes& value, Revision revision) {
    return told(Set{kKey, value, {}, false}, Written{revision});
  }
  Op& get(const Bytes& value, Revision revision = 0) {
    return told(Get{kKey, {}}, Value{value, revision});
  }
  void add(std::int64_t sum) { told(Add{kKey, 1}, Counter{sum}); }
  void append(const Bytes& word, std::uint64_t bytes) { told(Append{kKey, word}, Appended{bytes}); }
  void swap(const Bytes& from, const Bytes& to) {
    told(CompareSet{kKey, from, to}, Compared{true, true, {}});
  }
  void push(const Bytes& item) { told(QueuePush{kKey, item}, Counted{1}); }
  Op& pop(const Bytes& item, std::uint32_t client = kAlive) {
    return told(QueuePop{kKey, {}}, Popped{item}, client);
  }

  Ops ops() const {
    Ops ops;
    for (const Op& op : ops_) ops.push_back(&op);
    return ops;
  }
  KeyCalls calls() const {
    CallsByKey calls;
    for (const Op& op : ops_)
      take_apart(
          op, [](const Bytes& key) { return key == kKey; }, calls);
    return calls[kKey];
  }
  FoundFaults queues(bool drained = true) const {
    QueueFacts facts;
    facts.session_ended = [](const Op& op) { return op.client == kDead; };
    facts.drained = drained;
    return judge_queues(ops(), facts);
  }

 private:
  std::deque<Op> ops_;
  std::uint64_t time_ = 0;
};

/// Returns the faults of the findings, in order. Each occurs as often as its finding counts.
std::vector<Fault> faults(const FoundFaults& findings) {
  std::vector<Fault> all;
  for (const FoundFault& finding : findings) all.insert(all.end(), finding.count, finding.fault);
  return all;
}
using Faults = std::vector<Fault>;

Faults registers(const Told& told) { return faults(judge_register(kKey, told.calls())); }
Faults sums(const Told& told) { return faults(judge_sum(kKey, told.calls())); }
Faults words(const Told& told) { return faults(judge_words(kKey, told.calls())); }
Faults chains(const Told& told) { return faults(judge_chain(kKey, told.calls())); }
Faults queues(const Told& told) { return faults(told.queues()); }
Faults orders(const Told& told) {
  Searched searched;
  const FoundFaults findings = judge_order_of_calls(kKey, told.calls(), searched);
  EXPECT_EQ(searched.keys, 1u);
  EXPECT_EQ(searched.undecided, 0u);
  return faults(findings);
}

TEST(JudgeOrderOfCalls, FindsAnAnswerThatNoOrderExplains) {
  Told right;
  right.set("a", 1);
  right.told(Check{{kKey}}, Checked{true});
  right.get("a");
  EXPECT_EQ(orders(right), Faults{});
  Told wrong;
  wrong.set("a", 1);
  wrong.told(Check{{kKey}}, Checked{false});
  EXPECT_EQ(orders(wrong), Faults{Fault::order});
}

/// Each operation, with the reply that it gets after the key was set to 1, and with a reply that it
/// cannot have got.
TEST(JudgeOrderOfCalls, KnowsEveryOperationOnKeys) {
  const auto failed = [](Code code) { return Reply(failure(code, "")); };
  const auto body = [](ReplyBody told) { return Reply(std::move(told)); };
  const struct {
    Request request;
    Reply right;
    Reply wrong;
  } cases[] = {
      {Get{kKey, {}}, body(Value{"1", 1}), body(Value{"2", 1})},
      {Get{kKey, {}}, body(Value{"1", 1}), failed(Code::not_found)},
      {MultiGet{{"other", kKey}, {}}, body(Values{{"x", "1"}, {}}), body(Values{{"1", "x"}, {}})},
      {ReadValues{{"other", kKey}, 1}, body(ValuePage{{"1"}, 2}), body(ValuePage{{""}, 2})},
      {ReadValues{{"other", kKey}, 0}, body(ValuePage{{"x"}, 1}), body(ValuePage{{"1", "x"}, 2})},
      {Check{{kKey}}, body(Checked{true}), body(Checked{false})},
      {Add{kKey, 2}, body(Counter{3}), body(Counter{2})},
      {Add{kKey, 2}, body(Counter{3}), failed(Code::wrong_type)},
      {Add{kKey, 2, true}, body(Counter{3}), failed(Code::invalid_argument)},
      {Append{kKey, "2"}, body(Appended{2}), body(Appended{1})},
      {CompareSet{kKey, "1", "2"}, body(Compared{true, true, {}}),
       body(Compared{false, true, "1"})},
      {CompareSet{kKey, "0", "2"}, body(Compared{false, true, "1"}),
       body(Compared{true, true, {}})},
      {Remove{kKey}, body(Removed{true}), body(Removed{false})},
      {Transact{{}, {{Action::Kind::add, kKey, "", 2, {}, false}}},
       body(Transacted{true, 0, 2, {3}}), body(Transacted{true, 0, 2, {2}})},
  };
  for (const auto& one : cases) {
    for (const Reply* reply : {&one.right, &one.wrong}) {
      Told told;
      told.set("1", 1);
      told.call(one.request, *reply);
      EXPECT_EQ(orders(told), reply == &one.right ? Faults{} : Faults{Fault::order})
          << describe(*told.ops().back());
    }
  }
}

TEST(JudgeOrderOfCalls, SeesWhatManySetsAndWaitsSay) {
  Told told;
  told.told(MultiSet{{"other", kKey}, {"x", "1"}}, Written{1});
  told.told(Wait{{kKey}, {}}, Done{});
  told.get("1");
  EXPECT_EQ(orders(told), Faults{});
  told.get("x");
  EXPECT_EQ(orders(told), Faults{Fault::order});
  Told waited;
  waited.told(Wait{{kKey}, {}}, Done{});
  EXPECT_EQ(orders(waited), Faults{Fault::order}) << "nobody had set it";
}

TEST(JudgeOrderOfCalls, ReadsNumbersAsStrtollDoes) {
  Told told;
  told.set(" 7th", 1);
  told.told(WaitCounter{kKey, 7, {}}, Done{});
  told.told(Add{kKey, 2, true}, Counter{9});
  EXPECT_EQ(orders(told), Faults{});
  told.told(WaitCounter{kKey, 10, {}}, Done{});
  EXPECT_EQ(orders(told), Faults{Fault::order});
  Told text;
  text.set("seven", 1);
  text.call(Add{kKey, 2, true}, Reply(failure(Code::invalid_argument, "")));
  EXPECT_EQ(orders(text), Faults{});
  text.told(WaitCounter{kKey, -1, {}}, Done{});
  EXPECT_EQ(orders(text), Faults{Fault::order});
  Told missing;
  missing.told(ReadValues{{kKey}, 0}, ValuePage{{""}, 1});
  EXPECT_EQ(orders(missing), Faults{});
  missing.told(WaitCounter{kKey, 0, {}}, Done{});
  EXPECT_EQ(orders(missing), Faults{Fault::order});
}

TEST(JudgeOrderOfCalls, TakesAnUnansweredCallForDoneOrNot) {
  Told told;
  told.set("a", 1);
  told.unanswered(Set{kKey, "b", {}, false});
  told.get("a");
  told.get("b");
  EXPECT_EQ(orders(told), Faults{});
  told.get("a");
  EXPECT_EQ(orders(told), Faults{Fault::order});
}

TEST(JudgeRegister, IsRightWhenTheNewestIsThere) {
  Told told;
  told.set("a", 10);
  told.get("a", 10);
  told.set("b", 12);
  told.get("b", 12);
  EXPECT_EQ(registers(told), Faults{});
}

TEST(JudgeRegister, FindsAReadThatDidNotSeeAnAnsweredWrite) {
  Told told;
  told.set("a", 10);
  told.set("b", 12);
  told.get("a", 10);
  EXPECT_EQ(registers(told), Faults{Fault::lost});
}

TEST(JudgeRegister, FindsARevisionThatWentBack) {
  Told told;
  told.set("a", 10);
  told.set("b", 9);
  EXPECT_EQ(registers(told), Faults{Fault::order});
}

TEST(JudgeRegister, LetsAnUnansweredWriteBeThere) {
  Told told;
  told.set("a", 10);
  told.unanswered(Set{kKey, "b", {}, false});
  Op& end = told.get("b", 11);
  EXPECT_EQ(registers(told), Faults{});
  end.reply = Reply(ReplyBody(Value{"c", 11}));
  EXPECT_EQ(registers(told), Faults{Fault::order});
}

TEST(JudgeRegister, FindsARevisionGivenTwice) {
  Told told;
  told.set("a", 10);
  told.set("b", 10).invoked = 1;  // beside the first
  told.get("b", 10);
  EXPECT_EQ(registers(told), Faults{Fault::lost});
}

TEST(JudgeSum, CountsAcknowledgedAddsAndPerhapsTheUnanswered) {
  Told told;
  told.add(1);
  told.add(2);
  Op& end = told.get("2");
  EXPECT_EQ(sums(told), Faults{});
  told.unanswered(Add{kKey, 1});
  EXPECT_EQ(sums(told), Faults{});
  end.reply = Reply(ReplyBody(Value{"3", 1}));
  EXPECT_EQ(sums(told), Faults{});
}

TEST(JudgeSum, FindsAnAddAppliedTwice) {
  Told told;
  told.add(1);
  told.add(3);
  told.get("3");
  EXPECT_EQ(sums(told), Faults{Fault::twice});
}

TEST(JudgeSum, FindsALostAdd) {
  Told told;
  told.add(1);
  told.add(2);
  told.get("1");
  EXPECT_EQ(sums(told), (Faults{Fault::lost, Fault::lost})) << "one by number, one by its place";
  Told same;
  same.add(1);
  same.add(2);
  same.add(2);
  same.get("2");
  EXPECT_EQ(sums(same), (Faults{Fault::lost, Fault::lost, Fault::order}));
}

TEST(JudgeWords, HoldsEachWordOnceAtTheToldPlace) {
  Told told;
  told.append("a;", 2);
  told.append("b;", 4);
  told.unanswered(Append{kKey, "c;"});
  Op& end = told.get("a;b;");
  const auto at_end = [&](const Bytes& text) {
    end.reply = Reply(ReplyBody(Value{text, 1}));
    return words(told);
  };
  EXPECT_EQ(at_end("a;b;"), Faults{});
  EXPECT_EQ(at_end("a;b;c;"), Faults{});
  EXPECT_EQ(at_end("a;b;b;"), Faults{Fault::twice});
  EXPECT_EQ(at_end("a;c;"), Faults{Fault::lost});
  EXPECT_EQ(at_end("b;a;"), (Faults{Fault::order, Fault::order}));
  EXPECT_EQ(at_end("a;b;x;"), Faults{Fault::order});
}

TEST(JudgeChain, LeadsBackToTheBeginning) {
  Told told;
  told.swap("", "a");
  told.swap("a", "b");
  told.told(CompareSet{kKey, "a", "c"}, Compared{false, true, "b"});
  told.get("b");
  EXPECT_EQ(chains(told), Faults{});
  Told forked;
  forked.swap("", "a");
  forked.swap("a", "b");
  forked.swap("a", "c");
  forked.get("b");
  EXPECT_EQ(chains(forked), (Faults{Fault::lost, Fault::lost})) << "the place, and c";
  Told lost;
  lost.swap("", "a");
  EXPECT_EQ(chains(lost), Faults{Fault::lost});
  Told made_up;
  made_up.get("x");
  EXPECT_EQ(chains(made_up), Faults{Fault::order});
}

TEST(JudgeQueues, WantsEachItemPoppedOnce) {
  Told told;
  told.push("a");
  EXPECT_EQ(queues(told), Faults{Fault::lost});
  EXPECT_EQ(faults(told.queues(false)), Faults{}) << "it may still be in the queue";
  told.pop("a", kDead);
  EXPECT_EQ(queues(told), Faults{});
  told.pop("a");
  EXPECT_EQ(queues(told), Faults{}) << "it came back from the dead process";
  told.pop("a");
  EXPECT_EQ(queues(told), Faults{Fault::twice});
}

TEST(JudgeQueues, FindsAnItemThatLeftALivingSession) {
  Told told;
  told.push("a");
  told.pop("a");
  told.pop("a", kDead);
  EXPECT_EQ(queues(told), Faults{Fault::twice});
}

TEST(JudgeQueues, LetsAnItemGoDownWithAPopWhoseAnswerIsMissing) {
  Told told;
  told.push("a");
  told.unanswered(QueuePop{kKey, {}});
  EXPECT_EQ(queues(told), Faults{Fault::lost});
  QueueFacts facts;
  facts.session_ended = [](const Op&) { return false; };
  facts.drained = true;
  facts.answers_may_be_missing = true;
  EXPECT_EQ(faults(judge_queues(told.ops(), facts)), Faults{});
  told.push("b");
  EXPECT_EQ(faults(judge_queues(told.ops(), facts)), Faults{Fault::lost});
}

TEST(JudgeQueues, FindsAnItemThatNobodyPushed) {
  Told told;
  told.pop("a");
  EXPECT_EQ(queues(told), Faults{Fault::order});
}

TEST(JudgeQueues, KnowsWhichPushesWereDone) {
  Told told;
  const Action push{Action::Kind::push, kKey, "a", 0, {}, false};
  told.told(Transact{{}, {push}}, Transacted{false, 0, 1, {}});
  EXPECT_EQ(queues(told), Faults{});
  told.pop("a");
  EXPECT_EQ(queues(told), Faults{Fault::order});
  Told unknown;
  unknown.unanswered(QueuePush{kKey, "a"});
  EXPECT_EQ(queues(unknown), Faults{});
  QueueFacts facts;
  facts.session_ended = [](const Op&) { return false; };
  facts.drained = true;
  facts.done = [](const Op&) { return true; };
  EXPECT_EQ(faults(judge_queues(unknown.ops(), facts)), Faults{Fault::lost});
  facts.done = [](const Op&) { return false; };
  unknown.pop("a");
  EXPECT_EQ(faults(judge_queues(unknown.ops(), facts)), Faults{Fault::order});
}

TEST(JudgeQueues, KeepsTheOrderUntilAnItemMayHaveBeenHeld) {
  Told told;
  told.push("a");
  told.push("b");
  told.pop("b");
  told.pop("a");
  EXPECT_EQ(queues(told), Faults{Fault::order});
  Told held;
  held.push("a");
  held.push("b");
  held.unanswered(QueuePop{kKey, {}});
  held.pop("b");
  held.pop("a");
  EXPECT_EQ(queues(held), Faults{}) << "a came back later";
}

Faults watched(const Told& told, std::vector<Change> changes, Revision next, Now now = {},
               Revision from = 1) {
  Op op;
  op.request = Watch{kKey, true, from, 0, {}};
  op.reply = Reply(ReplyBody(Changes{std::move(changes), next, 0}));
  return faults(judge_watch(op, happened_by_answers(told.ops()), now));
}

TEST(JudgeWatch, WantsEveryChangeOnceInOrder) {
  Told told;
  told.set("a", 10);
  told.set("b", 12);
  told.told(Set{"other", "x", {}, false}, Written{13});
  told.unanswered(Set{kKey, "c", {}, false});
  const Change first{10, false, kKey, "a"};
  const Change second{12, false, kKey, "b"};
  const Faults wrong{Fault::watch};
  EXPECT_EQ(watched(told, {first, second}, 13), Faults{});
  EXPECT_EQ(watched(told, {first, second}, 14), Faults{}) << "the last one is of another key";
  EXPECT_EQ(watched(told, {first}, 11), Faults{});
  EXPECT_EQ(watched(told, {second}, 13), wrong) << "a gap";
  EXPECT_EQ(watched(told, {first, second}, 12), wrong) << "it goes on too early";
  EXPECT_EQ(watched(told, {first, second, second}, 13), wrong) << "twice";
  EXPECT_EQ(watched(told, {second, first}, 13), wrong) << "out of order";
  EXPECT_EQ(watched(told, {first, {12, false, kKey, "x"}}, 13), wrong) << "another value";
  EXPECT_EQ(watched(told, {first, {12, true, kKey, "b"}}, 13), wrong) << "a removal";
  EXPECT_EQ(watched(told, {first, {11, false, kKey, "x"}, second}, 13), wrong) << "made up";
  EXPECT_EQ(watched(told, {first, {11, false, kKey, "c"}, second}, 13), Faults{})
      << "the unanswered set may have happened";
}

TEST(JudgeWatch, TellsNothingFromOutsideOfItsRevisions) {
  Told told;
  told.set("a", 10);
  told.set("b", 12);
  const Change first{10, false, kKey, "a"};
  const Change second{12, false, kKey, "b"};
  const Faults wrong{Fault::watch};
  EXPECT_EQ(watched(told, {first, second}, 13, {0, 12}), Faults{});
  EXPECT_EQ(watched(told, {first, second}, 14, {0, 12}), wrong) << "ahead of what is durable";
  EXPECT_EQ(watched(told, {second}, 13, {}, 11), Faults{});
  EXPECT_EQ(watched(told, {first, second}, 13, {}, 11), wrong) << "before it began";
  EXPECT_EQ(watched(told, {second}, 13, {10, 12}, 0), Faults{}) << "from now on";
  EXPECT_EQ(watched(told, {first, second}, 13, {10, 12}, 0), wrong) << "before now";
}

}  // namespace
}  // namespace c10dd::history
