// SPDX-License-Identifier: Apache-2.0
// Items of queues: kept until the caller has the reply, given back if no caller waits any more.
#include <deque>
#include <map>
#include <set>

#include "tests/unit/client/client_world.h"

namespace c10dd::client {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(ClientPop, HoldsBackTheAcknowledgementUntilItsAnswerIsHere) {
  World w;
  w.open();
  w.core.call(pop(), kLimit, w.now);
  EXPECT_EQ(w.only_sent().header.acked_below, 1u);
  w.core.call(Check{{"a"}}, kLimit, w.now);
  EXPECT_EQ(w.only_sent().header.acked_below, 1u);
  w.reply(QueuePop::op.code, 1, item("x"));
  const std::vector<Completion> done = w.core.take_completions();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(std::get<Popped>(*done[0].reply).value, "x");
  w.core.call(Check{{"a"}}, kLimit, w.now);
  EXPECT_EQ(w.only_sent().header.acked_below, 4u);
}

TEST(ClientPop, IsAskedAgainUnderItsSequenceWhenTheAnswerWasLost) {
  World w;
  w.open();
  w.core.call(pop(), kLimit, w.now);
  w.core.call(Check{{"a"}}, kLimit, w.now);
  w.sent();
  w.core.closed("lost", w.now);
  w.open();
  const std::vector<Sent> frames = w.sent();
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[0].header.op, QueuePop::op.code);
  EXPECT_EQ(frames[0].header.sequence, 1u);
  EXPECT_EQ(frames[0].header.acked_below, 1u);
}

TEST(ClientPop, GivenUpIsCancelledAndItsLateItemNotTaken) {
  World w;
  w.open();
  w.core.call(pop(), kLimit, w.now);
  w.sent();
  for (int i = 0; i < 12; ++i) {
    w.now += milliseconds(500);
    w.core.tick(w.now);
    w.reply(Ping::op.code, 0, ReplyBody(Done{}));
  }
  const Failure reason = w.only_failure();
  EXPECT_EQ(reason.code, Code::timed_out);
  EXPECT_NE(reason.detail.find("returns to its queue"), std::string::npos) << reason.detail;
  const std::vector<Sent> frames = w.sent();
  ASSERT_FALSE(frames.empty());
  ASSERT_EQ(frames.back().header.op, Cancel::op.code);
  EXPECT_EQ(std::get<Cancel>(frames.back().request).sequence, 1u);
  EXPECT_EQ(frames.back().header.sequence, 1u);
  EXPECT_EQ(frames.back().header.acked_below, 1u);
  w.reply(QueuePop::op.code, 1, item("late"));
  EXPECT_TRUE(w.core.take_completions().empty());
  w.core.call(Set{"a", "1"}, kLimit, w.now);
  EXPECT_EQ(w.only_sent().header.acked_below, 1u) << "the daemon still has to know the pop";
  w.reply(Cancel::op.code, 1, ReplyBody(Done{}));
  w.core.call(Check{{"a"}}, kLimit, w.now);
  EXPECT_EQ(w.only_sent().header.acked_below, 2u);
  EXPECT_TRUE(w.core.take_completions().empty()) << "nobody waits for a cancel";
}

TEST(ClientPop, ThatWasNeverSentIsNotCancelled) {
  World w;
  w.core.call(pop(milliseconds(100)), kLimit, w.now);
  w.now += seconds(2);
  w.core.tick(w.now);
  EXPECT_EQ(w.only_failure().code, Code::timed_out);
  w.open();
  EXPECT_TRUE(w.sent().empty());
}

TEST(ClientPop, GivenUpWhileAwayIsCancelledInTheNextConnectionAndTheNext) {
  World w;
  w.open();
  const std::uint64_t call = w.core.call(pop(), kLimit, w.now);
  w.sent();
  w.core.closed("lost", w.now);
  w.core.fail_call(call, failure(Code::aborted, "not wanted"), w.now);
  EXPECT_EQ(w.only_failure().code, Code::aborted);
  for (int connection = 0; connection < 3; ++connection) {
    w.open();
    const Sent frame = w.only_sent();
    EXPECT_EQ(frame.header.op, Cancel::op.code) << "and no pop";
    EXPECT_EQ(std::get<Cancel>(frame.request).sequence, 1u);
    EXPECT_EQ(frame.header.acked_below, 1u);
    if (connection < 2) w.core.closed("lost", w.now);
  }
  w.reply(Cancel::op.code, 1, ReplyBody(Done{}));
  w.core.closed("lost", w.now);
  w.open();
  EXPECT_TRUE(w.sent().empty());
}

TEST(ClientPop, ADaemonThatCannotCancelIsAskedOnce) {
  World w;
  w.open();
  const std::uint64_t call = w.core.call(pop(), kLimit, w.now);
  w.sent();
  w.core.fail_call(call, failure(Code::aborted, "not wanted"), w.now);
  EXPECT_EQ(w.only_sent().header.op, Cancel::op.code);
  w.reply(Cancel::op.code, 1, failure(Code::unknown_op, "what is that?"));
  w.core.call(Check{{"a"}}, kLimit, w.now);
  EXPECT_EQ(w.only_sent().header.acked_below, 3u);
  w.core.closed("lost", w.now);
  w.open();
  EXPECT_EQ(w.only_sent().header.op, Check::op.code);
}

TEST(ClientPop, AllThatAreGivenUpAtTheEndAreCancelledBeforeGoodbye) {
  World w;
  w.open();
  w.core.call(pop(), kLimit, w.now);
  w.core.call(pop(), kLimit, w.now);
  w.core.call(Set{"a", "1"}, kLimit, w.now);
  w.sent();
  w.core.fail_calls(failure(Code::closed, "closed"));
  EXPECT_EQ(w.core.take_completions().size(), 3u);
  w.core.call(Goodbye{}, kLimit, w.now);
  const std::vector<Sent> frames = w.sent();
  ASSERT_EQ(frames.size(), 3u);
  EXPECT_EQ(std::get<Cancel>(frames[0].request).sequence, 1u);
  EXPECT_EQ(std::get<Cancel>(frames[1].request).sequence, 2u);
  EXPECT_EQ(frames[2].header.op, Goodbye::op.code);
}

TEST(ClientPop, BlockedForLongDoesNotFillTheWindow) {
  World w;
  w.open(8);
  w.core.call(pop(seconds(300)), kLimit, w.now);
  std::uint64_t popped_as = 0;
  std::set<std::uint64_t> cancelled;
  int writes = 0;
  const auto answer_all = [&] {
    for (const Sent& frame : w.sent()) {
      EXPECT_LT(frame.header.sequence, frame.header.acked_below + 8);
      if (frame.header.op == QueuePop::op.code) {
        EXPECT_TRUE(popped_as == 0 || cancelled.contains(popped_as)) << "one pop at a time";
        popped_as = frame.header.sequence;
      } else if (frame.header.op == Cancel::op.code) {
        cancelled.insert(std::get<Cancel>(frame.request).sequence);
        w.reply(Cancel::op.code, frame.header.sequence, ReplyBody(Done{}));
      } else {
        ++writes;
        w.reply(Set::op.code, frame.header.sequence, ReplyBody(Written{1}));
      }
    }
  };
  answer_all();
  for (int i = 0; i < 100; ++i) {
    w.core.call(Set{"a", "1"}, kLimit, w.now);
    for (int turn = 0; turn < 4; ++turn) answer_all();
    ASSERT_EQ(writes, i + 1);
  }
  EXPECT_GE(cancelled.size(), 10u);
  EXPECT_FALSE(cancelled.contains(popped_as));
  w.core.take_completions();
  w.reply(QueuePop::op.code, *cancelled.rbegin(), item("went back"));
  EXPECT_TRUE(w.core.take_completions().empty());
  w.reply(QueuePop::op.code, popped_as, item("x"));
  const std::vector<Completion> done = w.core.take_completions();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].call, 1u);
  EXPECT_EQ(std::get<Popped>(*done[0].reply).value, "x");
  EXPECT_EQ(w.core.stats(w.now).reissued, 0u);
}

TEST(ClientPop, TheSmallestWindowIsEnoughForABlockedPopAndOthers) {
  World w;
  w.open(1);
  w.core.call(pop(seconds(300)), kLimit, w.now);
  for (int i = 0; i < 3; ++i) w.core.call(Set{"a", "1"}, kLimit, w.now);
  int writes = 0;
  for (int turn = 0; turn < 40; ++turn) {
    for (const Sent& frame : w.sent()) {
      if (frame.header.op == Set::op.code) ++writes;
      if (frame.header.op == QueuePop::op.code) continue;
      w.reply(frame.header.op, frame.header.sequence,
              frame.header.op == Set::op.code ? Reply(ReplyBody(Written{1}))
                                              : Reply(ReplyBody(Done{})));
    }
    w.now += milliseconds(100);
    w.core.tick(w.now);
  }
  EXPECT_EQ(writes, 3);
}

TEST(ClientWatch, CalledBackFreesTheDaemonsWaiterOnce) {
  World w;
  w.open();
  Watch watch;
  watch.key = "k";
  watch.from = 7;
  watch.timeout = seconds(100);
  const std::uint64_t call = w.core.call(watch, kLimit, w.now);
  w.sent();
  w.core.fail_call(call, failure(Code::aborted, "the watch was cancelled"), w.now);
  EXPECT_EQ(w.only_failure().code, Code::aborted);
  w.core.fail_call(call, failure(Code::aborted, "the watch was cancelled"), w.now);
  EXPECT_TRUE(w.core.take_completions().empty());
  const Sent frame = w.only_sent();
  EXPECT_EQ(std::get<Cancel>(frame.request).sequence, 1u);
  EXPECT_EQ(frame.header.acked_below, 2u) << "a wait holds nothing back";
  w.core.closed("lost", w.now);
  w.open();
  EXPECT_TRUE(w.sent().empty()) << "the wait went with its connection";
}

// ---- all of it together ------------------------------------------------------------------------

/// A daemon that knows only one queue and the expiry of sessions. It records its replies; the test
/// decides which of them arrive.
class QueueDaemon {
 public:
  explicit QueueDaemon(int items) {
    for (int i = 0; i < items; ++i) free_.push_back(i);
  }

  /// Handles one frame. Returns false if the session does not exist any more.
  bool take(const SessionId& session, const Sent& frame) {
    if (expired_.contains(session)) return false;
    std::erase_if(claims_, [&](const auto& claim) {
      return claim.first.first == session && claim.first.second < frame.header.acked_below;
    });
    const std::uint64_t sequence = frame.header.sequence;
    if (frame.header.op == QueuePop::op.code) {
      EXPECT_GE(sequence, frame.header.acked_below);
      blocked_.emplace(session, sequence);
    } else if (frame.header.op == Cancel::op.code) {
      const std::uint64_t what = std::get<Cancel>(frame.request).sequence;
      blocked_.erase({session, what});
      if (const auto it = claims_.find({session, what}); it != claims_.end()) {
        free_.push_front(it->second);
        claims_.erase(it);
      }
      replies.push_back(World::bytes(Cancel::op.code, sequence, ReplyBody(Done{})));
    }
    serve();
    return true;
  }
  void serve() {
    for (auto it = blocked_.begin(); it != blocked_.end();) {
      auto claim = claims_.find(*it);
      if (claim == claims_.end()) {
        if (free_.empty()) break;
        claim = claims_.emplace(*it, free_.front()).first;
        free_.pop_front();
      }
      replies.push_back(
          World::bytes(QueuePop::op.code, it->second, item(std::to_string(claim->second))));
      it = blocked_.erase(it);
    }
  }
  void connection_lost() {
    blocked_.clear();
    replies.clear();
  }
  /// The items that went back.
  std::vector<int> expire(const SessionId& session) {
    connection_lost();
    expired_.insert(session);
    std::vector<int> back;
    for (const auto& [call, value] : std::exchange(claims_, {})) back.push_back(value);
    free_.insert(free_.begin(), back.begin(), back.end());
    return back;
  }
  const std::deque<int>& free() const { return free_; }

  std::deque<Bytes> replies;

 private:
  std::deque<int> free_;
  std::map<std::pair<SessionId, std::uint64_t>, int> claims_;
  std::set<std::pair<SessionId, std::uint64_t>> blocked_;
  std::set<SessionId> expired_;
};

TEST(ClientPop, EachItemIsTakenOnceWhateverIsLost) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    std::uint64_t state = seed;
    const auto chance = [&](std::uint64_t of) { return mixed(state += 0x9E3779B97F4A7C15) % of; };
    World w(seed);
    QueueDaemon daemon(40);
    SessionId session;
    std::multiset<std::string> taken;
    std::multiset<std::string> again;  // taken, but the session ended before the daemon knew
    std::vector<std::uint64_t> calls;
    const auto step = [&](bool faults) {
      if (!w.core.wants_socket()) w.dial();
      bool alive = true;
      for (const Sent& frame : w.sent()) {
        if (frame.header.op == Hello::op.code) {
          session = std::get<Hello>(frame.request).session;
          w.reply(Hello::op.code, 0, World::welcome(8));
        } else if (alive && frame.header.op != Ping::op.code) {
          alive = daemon.take(session, frame);
        }
      }
      if (faults && chance(12) == 0) {
        daemon.connection_lost();
        w.core.closed("lost", w.now);
      } else if (faults && chance(60) == 0) {
        for (const int value : daemon.expire(session)) {
          const std::string name = std::to_string(value);
          if (taken.count(name) > again.count(name)) again.insert(name);
        }
        w.reply(Hello::op.code, 0, failure(Code::session_expired, "gone"));
      } else {
        while (!daemon.replies.empty() && chance(3) != 0) {
          w.core.received(daemon.replies.front(), w.now);
          daemon.replies.pop_front();
        }
      }
      for (const Completion& done : w.core.take_completions()) {
        std::erase(calls, done.call);
        if (done.reply) taken.insert(std::get<Popped>(*done.reply).value);
      }
    };
    for (int turn = 0; turn < 300; ++turn) {
      if (calls.size() < 4) calls.push_back(w.core.call(pop(seconds(60)), kLimit, w.now));
      if (!calls.empty() && chance(6) == 0) {
        w.core.fail_call(calls[chance(calls.size())], failure(Code::aborted, "no"), w.now);
      }
      w.now += milliseconds(1);
      step(true);
    }
    while (!calls.empty()) {
      w.core.fail_call(calls.front(), failure(Code::aborted, "no"), w.now);
      step(false);
    }
    for (int turn = 0; turn < 30; ++turn) step(false);
    ASSERT_EQ(taken.size() + daemon.free().size(), 40u + again.size()) << "seed " << seed;
    for (int i = 0; i < 40; ++i) {
      const std::string name = std::to_string(i);
      const std::size_t free = std::count(daemon.free().begin(), daemon.free().end(), i);
      ASSERT_EQ(taken.count(name) + free, 1 + again.count(name)) << "seed " << seed;
    }
    ASSERT_GT(taken.size(), 5u) << "seed " << seed;
  }
}

}  // namespace
}  // namespace c10dd::client
