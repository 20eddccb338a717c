// SPDX-License-Identifier: Apache-2.0
// What the activity hook tells of the operations of a group: counts, the oldest, marks, hashes and
// usual durations, with a clock that the tests set, and while threads run operations.
#include "collectives/activity_hook.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace c10dd::collectives {
namespace {

using namespace std::chrono_literals;
using Clock = CollectiveCall::Clock;

Operation all_reduce_of(std::size_t count, DType type = DType::float32,
                        ReduceOp op = ReduceOp::sum) {
  return {.collective = Collective::all_reduce,
          .output = {.count = count, .dtype = type},
          .reduce = op,
          .timeout = 60s};
}

/// A group whose operations advance as the test says.
class PlayedGroup {
 public:
  CollectiveCall& issue(Operation operation) {
    std::uint64_t& next = info_of(operation.collective).message ? messages_ : collectives_;
    operation.sequence = next++;
    calls_.push_back(std::make_unique<CollectiveCall>());
    CollectiveCall& call = *calls_.back();
    call.operation = std::move(operation);
    call.enqueued = now;
    hook.enqueued(call);
    return call;
  }
  void begin(CollectiveCall& call) {
    call.started = call.begun = now;
    hook.started(call);
    hook.begun(call);
  }
  void end(CollectiveCall& call, Code outcome = Code::ok) {
    call.finished = now;
    call.outcome = outcome;
    hook.finished(call);
  }
  /// Runs a collective from its issue to its end.
  void run(const Operation& operation, Duration takes = 0s) {
    CollectiveCall& call = issue(operation);
    begin(call);
    now += takes;
    end(call);
  }
  GroupActivity activity() const { return hook.read().activity; }

  ActivityHook hook;
  Clock::time_point now = Clock::now();

 private:
  std::uint64_t collectives_ = 0;
  std::uint64_t messages_ = 0;
  std::vector<std::unique_ptr<CollectiveCall>> calls_;
};

TEST(ActivityHook, CountsCollectivesAndMessagesFromIssueToEnd) {
  PlayedGroup group;
  CollectiveCall& first = group.issue(all_reduce_of(8));
  CollectiveCall& second = group.issue({.collective = Collective::barrier, .timeout = 5s});
  CollectiveCall& message =
      group.issue({.collective = Collective::recv, .output = {.count = 8}, .peer = 3, .tag = 7});
  group.begin(first);
  GroupActivity seen = group.activity();
  EXPECT_EQ(seen.collectives.issued, 2u);
  EXPECT_EQ(seen.collectives.not_begun, 1u);
  EXPECT_EQ(seen.collectives.unfinished, 2u);
  EXPECT_EQ(seen.messages.issued, 1u);
  EXPECT_EQ(seen.messages.not_begun, 1u);
  group.end(first);
  group.end(second, Code::aborted);  // was abandoned
  group.end(message, Code::aborted);
  seen = group.activity();
  EXPECT_EQ(seen.collectives.issued, 2u);
  EXPECT_EQ(seen.messages.issued, 1u);
  for (const OperationCounts& counts : {seen.collectives, seen.messages}) {
    EXPECT_EQ(counts.not_begun, 0u);
    EXPECT_EQ(counts.unfinished, 0u);
  }
  EXPECT_TRUE(seen.oldest.empty());
}

TEST(ActivityHook, DescribesTheOldestOfEachKind) {
  PlayedGroup group;
  group.run(all_reduce_of(8));
  group.now = Clock::now() - 10s;
  group.begin(group.issue(all_reduce_of(1000)));
  group.issue({.collective = Collective::barrier, .timeout = 1s});
  group.issue({.collective = Collective::send,
               .input = {.count = 8, .dtype = DType::int64},
               .peer = 3,
               .tag = 7,
               .timeout = 20s});
  const client::ReadGroup read = group.hook.read();
  EXPECT_EQ(read.timeout, 20s) << "the barrier is not the oldest";
  ASSERT_EQ(read.activity.oldest.size(), 2u);
  const UnfinishedOperation& collective = read.activity.oldest[0];
  EXPECT_EQ(collective.kind, UnfinishedOperation::Kind::collective);
  EXPECT_TRUE(collective.begun);
  EXPECT_EQ(collective.sequence, 1u);
  EXPECT_GE(collective.age, 10s);
  EXPECT_EQ(collective.peer, -1);
  EXPECT_EQ(collective.name, "all_reduce");
  EXPECT_EQ(collective.arguments, "of 1000 float32 sum");
  const UnfinishedOperation& message = read.activity.oldest[1];
  EXPECT_EQ(message.kind, UnfinishedOperation::Kind::send);
  EXPECT_FALSE(message.begun);
  EXPECT_EQ(message.sequence, 0u);
  EXPECT_EQ(message.peer, 3);
  EXPECT_EQ(message.name, "send");
  EXPECT_EQ(message.arguments, "of 8 int64 to rank 3 with tag 7");
}

TEST(ActivityHook, DescribesTheLastCollectiveThatHasEnded) {
  PlayedGroup group;
  const auto last = [&] {
    const auto ended = group.hook.read().ended;
    return ended ? std::to_string(ended->sequence) + " " + ended->name + " " + ended->arguments
                 : "none";
  };
  EXPECT_EQ(last(), "none");
  CollectiveCall& first = group.issue(all_reduce_of(8));
  CollectiveCall& second = group.issue(all_reduce_of(9));
  group.begin(first);
  EXPECT_EQ(last(), "none");
  group.end(first);
  group.begin(second);
  EXPECT_EQ(last(), "0 all_reduce of 8 float32 sum");
  group.end(second);
  group.run({.collective = Collective::send, .input = {.count = 8}, .peer = 1});
  EXPECT_EQ(last(), "1 all_reduce of 9 float32 sum") << "a message is none";
  for (std::size_t i = 0; i < ActivityHook::kCollectives; ++i) group.issue(all_reduce_of(10));
  EXPECT_EQ(last(), "none") << "a later one has its slot";
}

TEST(ActivityHook, TellsArgumentsInFewWords) {
  const auto told = [](const Operation& operation) {
    PlayedGroup group;
    group.issue(operation);
    return group.activity().oldest.at(0).arguments;
  };
  const Tensor eight{.count = 8, .dtype = DType::int64};
  const auto with = [&](Collective collective) {
    return Operation{.collective = collective, .output = eight, .input = eight, .root = 1};
  };
  EXPECT_EQ(told({.collective = Collective::barrier}), "");
  EXPECT_EQ(told(with(Collective::broadcast)), "of 8 int64 from rank 1");
  EXPECT_EQ(told(with(Collective::reduce)), "of 8 int64 sum to rank 1");
  EXPECT_EQ(told(with(Collective::gather)), "of 8 int64 to rank 1");
  EXPECT_EQ(told(with(Collective::scatter)), "of 8 int64 from rank 1");
  EXPECT_EQ(told(with(Collective::all_gather)), "of 8 int64");
  EXPECT_EQ(told(with(Collective::all_to_all)), "of 8 int64");
  EXPECT_EQ(told(with(Collective::reduce_scatter)), "of 8 int64 sum");
  EXPECT_EQ(
      told({.collective = Collective::recv, .output = eight, .peer = kAnyRank, .tag = kAnyTag}),
      "of 8 int64 from any rank with any tag");
  Operation lists = with(Collective::all_gather);
  lists.lists = true;
  lists.outputs = {eight, eight};
  EXPECT_EQ(told(lists), "of 16 int64") << "the sum is equal on all ranks";
  lists.collective = Collective::all_to_all;
  EXPECT_EQ(told(lists), "") << "each rank has sizes of its own";
  Operation longest{.collective = Collective::send, .peer = kAnyRank - 1, .tag = kAnyTag - 1};
  longest.input = {.count = ~std::size_t{0}, .dtype = DType::bfloat16};
  EXPECT_LE(told(longest).size(), 63u);
}

TEST(ActivityHook, TheOldestIsTheLowestSequenceAlsoIfOthersEndFirst) {
  PlayedGroup group;
  std::vector<CollectiveCall*> calls;
  for (std::size_t i = 0; i < 4; ++i) calls.push_back(&group.issue(all_reduce_of(i + 1)));
  for (CollectiveCall* call : calls) group.begin(*call);
  const auto oldest = [&] {
    const GroupActivity seen = group.activity();
    return seen.oldest.empty() ? std::string("none") : seen.oldest[0].arguments.substr(3, 1);
  };
  EXPECT_EQ(oldest(), "1");
  group.end(*calls[2]);
  EXPECT_EQ(oldest(), "1");
  group.end(*calls[0]);
  EXPECT_EQ(oldest(), "2");
  group.end(*calls[1]);
  EXPECT_EQ(oldest(), "4");
  group.end(*calls[3]);
  EXPECT_EQ(oldest(), "none");
}

TEST(ActivityHook, MoreOperationsThanSlotsAreCountedAndDescribedWhenTheyBegin) {
  constexpr std::size_t kAhead = 1000;  // the caller is so far ahead of the device
  PlayedGroup group;
  std::vector<CollectiveCall*> calls;
  for (std::size_t i = 0; i < 5 * kAhead; ++i) {
    calls.push_back(&group.issue(all_reduce_of(i + 1)));
    if (i < kAhead) continue;
    const std::size_t first = i - kAhead;
    group.begin(*calls[first]);
    const GroupActivity seen = group.activity();
    ASSERT_EQ(seen.collectives.unfinished, kAhead + 1);
    ASSERT_EQ(seen.collectives.not_begun, kAhead);
    ASSERT_EQ(seen.oldest.size(), 1u) << first;
    ASSERT_EQ(seen.oldest[0].sequence, first);
    ASSERT_TRUE(seen.oldest[0].begun);
    ASSERT_EQ(seen.oldest[0].arguments, "of " + std::to_string(first + 1) + " float32 sum");
    group.end(*calls[first]);
    // One that has not begun may be without a slot. Then none is told, and not a later one.
    for (const UnfinishedOperation& told : group.activity().oldest) {
      ASSERT_EQ(told.sequence, first + 1);
      ASSERT_FALSE(told.begun);
    }
  }
}

TEST(ActivityHook, TheOldestOfTooManyMessagesIsAnyOfThem) {
  PlayedGroup group;
  const Operation message{.collective = Collective::recv, .output = {.count = 1}, .peer = 1};
  std::vector<CollectiveCall*> calls;
  for (std::size_t i = 0; i < 2 * ActivityHook::kMessages; ++i) {
    calls.push_back(&group.issue(message));
  }
  group.end(*calls[0]);
  group.end(*calls[70]);
  const GroupActivity seen = group.activity();
  EXPECT_EQ(seen.messages.unfinished, calls.size() - 2);
  ASSERT_EQ(seen.oldest.size(), 1u);
  EXPECT_EQ(seen.oldest[0].sequence, 1u);
}

std::map<std::uint64_t, std::uint64_t> hashes_of(const GroupActivity& activity) {
  std::map<std::uint64_t, std::uint64_t> hashes;
  for (const HashMark& mark : activity.hash_marks) hashes[mark.sequence] = mark.hash;
  return hashes;
}

TEST(ActivityHook, OneOperationThatDiffersChangesAllLaterHashes) {
  const std::vector<std::function<void(Operation&)>> changes = {
      [](Operation& one) { one.reduce = ReduceOp::max; },
      [](Operation& one) { one.output.count = 7; },
      [](Operation& one) { one.output.dtype = DType::float64; },
      [](Operation& one) { one.root = 1; },
      [](Operation& one) { one.collective = Collective::broadcast; },
  };
  const auto hashes_with = [](const std::function<void(Operation&)>& change) {
    PlayedGroup group;
    for (int i = 0; i < 8; ++i) {
      Operation operation = all_reduce_of(8);
      operation.collective = Collective::reduce;
      if (i == 4) change(operation);
      group.run(operation, 3s);  // so slowly that each is a mark
    }
    return hashes_of(group.activity());
  };
  const auto expected = hashes_with([](Operation&) {});
  ASSERT_EQ(expected.size(), 8u);
  EXPECT_EQ(hashes_with([](Operation& one) { one.output.count = 8; }), expected);
  for (const auto& change : changes) {
    const auto hashes = hashes_with(change);
    for (std::uint64_t sequence = 1; sequence <= 8; ++sequence) {
      EXPECT_EQ(hashes.at(sequence) == expected.at(sequence), sequence < 5) << sequence;
    }
  }
}

TEST(ActivityHook, MessagesChangeNoHash) {
  PlayedGroup with;
  PlayedGroup without;
  with.issue({.collective = Collective::send, .input = {.count = 3}, .peer = 1});
  with.run(all_reduce_of(8));
  without.run(all_reduce_of(8));
  EXPECT_EQ(hashes_of(with.activity()), hashes_of(without.activity()));
}

TEST(ActivityHook, MarksOfRanksThatRunAtDifferentPacesMeet) {
  for (const Duration step : {Duration(1ms), Duration(10ms), Duration(700ms), Duration(9s)}) {
    PlayedGroup fast;
    PlayedGroup slow;
    std::uint64_t met = 0;
    const int steps = static_cast<int>(std::max<std::int64_t>(60s / step, 40));
    for (int i = 0; i < steps; ++i) {
      fast.run(all_reduce_of(8), step * 9 / 10);
      slow.run(all_reduce_of(8), step * 11 / 10);
    }
    const auto one = hashes_of(fast.activity());
    const auto other = hashes_of(slow.activity());
    for (const auto& [sequence, hash] : one) {
      if (!other.contains(sequence)) continue;
      EXPECT_EQ(other.at(sequence), hash);
      ++met;
    }
    EXPECT_GE(met, 3u) << step / 1ms << " ms";
    const GroupActivity seen = fast.activity();
    EXPECT_LE(seen.time_marks.size(), ActivityHook::kMarks);
    const TimeMark& last = seen.time_marks.back();
    const TimeMark& before = seen.time_marks[seen.time_marks.size() - 2];
    const Duration apart = last.clock - before.clock;
    EXPECT_GE(apart, std::min<Duration>(ActivityHook::kMarksFast, step * 9 / 10));
    EXPECT_LE(apart, std::max<Duration>(ActivityHook::kMarksSlow, step));
  }
}

TEST(ActivityHook, MarksComeSoonAgainWhenAFastGroupBecomesSlow) {
  PlayedGroup group;
  for (int i = 0; i < 20'000; ++i) group.run(all_reduce_of(8), 500us);
  const std::uint64_t fast = group.activity().time_marks.back().sequence;
  const auto before = group.now;
  while (group.activity().time_marks.back().sequence == fast) group.run(all_reduce_of(8), 1s);
  EXPECT_LE(group.now - before, 120s);
  for (int i = 0; i < 100; ++i) group.run(all_reduce_of(8), 1s);
  const std::vector<TimeMark> marks = group.activity().time_marks;
  EXPECT_LE(marks.back().clock - marks[marks.size() - 2].clock, 5s);
}

TEST(ActivityHook, TheTimeThatIsWaitedIsThatInOperationsOfAllRanks) {
  PlayedGroup group;
  const auto last = [&] { return group.activity().time_marks.back(); };
  group.run(all_reduce_of(8), 3s);
  EXPECT_EQ(last().sequence, 1u);
  EXPECT_EQ(last().waited, 3s);
  EXPECT_EQ(last().clock, Duration(group.now.time_since_epoch()));
  group.run({.collective = Collective::broadcast}, 3s);  // the root waits for nobody
  EXPECT_EQ(last().waited, 3s);
  group.run({.collective = Collective::barrier}, 4s);
  EXPECT_EQ(last().waited, 7s);
  CollectiveCall& queued = group.issue({.collective = Collective::barrier});
  group.now += 50s;  // the device has not got to it
  group.begin(queued);
  group.now += 2s;
  group.end(queued);
  EXPECT_EQ(last().waited, 9s);
  group.end(group.issue({.collective = Collective::barrier}), Code::aborted);
  EXPECT_EQ(group.activity().collectives.issued, 5u);
  EXPECT_EQ(last().waited, 9s);
}

TEST(ActivityHook, TheUsualDurationIsAMovingAverageOfOneKind) {
  PlayedGroup group;
  const auto usual = [&](const Operation& operation) {
    CollectiveCall& call = group.issue(operation);
    const Duration of = group.activity().oldest.at(0).usual;
    group.end(call, Code::aborted);
    return of;
  };
  EXPECT_EQ(usual(all_reduce_of(8)), 0s);
  group.run(all_reduce_of(8), 80ms);
  EXPECT_EQ(usual(all_reduce_of(8)), 80ms);
  EXPECT_EQ(usual({.collective = Collective::barrier}), 0s);
  for (int i = 0; i < 100; ++i) group.run(all_reduce_of(8), 10ms);
  EXPECT_LT(usual(all_reduce_of(8)), 11ms);
  EXPECT_GE(usual(all_reduce_of(8)), 10ms);
}

TEST(ActivityHook, WhatIsReadWhileThreadsRunIsNeverAMix) {
  ActivityHook hook;
  constexpr std::uint64_t kCalls = 20'000;
  std::atomic<bool> stop = false;
  std::thread reader([&] {
    while (!stop) {
      const GroupActivity seen = hook.read().activity;
      EXPECT_LE(seen.collectives.unfinished, seen.collectives.issued);
      EXPECT_LE(seen.collectives.not_begun, seen.collectives.unfinished);
      for (const UnfinishedOperation& one : seen.oldest) {
        EXPECT_EQ(one.arguments, "of " + std::to_string(one.sequence + 1) + " float32 sum");
      }
    }
  });
  // One thread issues; others begin and end what it has issued, each its own.
  constexpr std::size_t kThreads = 3;
  constexpr std::uint64_t kAhead = 2000;
  std::vector<CollectiveCall> calls(kCalls);
  std::atomic<std::uint64_t> issued = 0;
  std::atomic<std::uint64_t> ended = 0;
  std::vector<std::thread> enders;
  for (std::size_t thread = 0; thread < kThreads; ++thread) {
    enders.emplace_back([&, thread] {
      for (std::uint64_t i = thread; i < kCalls; i += kThreads) {
        while (issued <= i) std::this_thread::yield();
        calls[i].started = calls[i].begun = Clock::now();
        hook.begun(calls[i]);
        calls[i].finished = Clock::now();
        hook.finished(calls[i]);
        ++ended;
      }
    });
  }
  for (std::uint64_t i = 0; i < kCalls; ++i) {
    while (i > ended + kAhead) std::this_thread::yield();
    calls[i].operation = all_reduce_of(i + 1);
    calls[i].operation.sequence = i;
    calls[i].enqueued = Clock::now();
    hook.enqueued(calls[i]);
    issued = i + 1;
  }
  for (std::thread& thread : enders) thread.join();
  stop = true;
  reader.join();
  const GroupActivity seen = hook.read().activity;
  EXPECT_EQ(seen.collectives.issued, kCalls);
  EXPECT_EQ(seen.collectives.unfinished, 0u);
  EXPECT_TRUE(seen.oldest.empty());
}

}  // namespace
}  // namespace c10dd::collectives
