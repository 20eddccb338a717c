// SPDX-License-Identifier: Apache-2.0
// A blocked request leaves exactly once: fired, expired, dropped or replaced.
#include "daemon/core/pending.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/unit/core/two_sessions.h"

namespace c10dd::core {
namespace {

Pending::Waiter waiter(SessionId session, std::uint64_t sequence, std::vector<Bytes> tokens,
                       int deadline) {
  Pending::Waiter w;
  w.session = session;
  w.sequence = sequence;
  w.tokens.assign(tokens.begin(), tokens.end());
  w.deadline = at(deadline);
  return w;
}

std::vector<std::uint64_t> sequences(const std::vector<Pending::Waiter>& waiters) {
  std::vector<std::uint64_t> out;
  for (const Pending::Waiter& w : waiters) out.push_back(w.sequence);
  return out;
}

using Sequences = std::vector<std::uint64_t>;

TEST(Pending, ReleasesAWaiterWithItsLastToken) {
  Pending pending;
  pending.add(waiter(kFirst, 1, {"a", "b", "a"}, 10));
  EXPECT_TRUE(pending.fire("a").empty());
  EXPECT_TRUE(pending.fire("a").empty());
  EXPECT_TRUE(pending.fire("unknown").empty());
  EXPECT_EQ(sequences(pending.fire("b")), Sequences{1});
  EXPECT_EQ(pending.size(), 0u);
  EXPECT_EQ(pending.next_deadline(), std::nullopt);
}

TEST(Pending, KeepsEachKeyOnce) {
  const Bytes big(4'000, 'x');
  const Wait wait{.keys = {"here", big, "also here", "z", big}};
  Pending pending;
  for (std::uint64_t sequence = 1; sequence <= 2; ++sequence) {
    Pending::Waiter one = waiter(kFirst, sequence, {'k' + big, "kz", 'k' + big}, 10);
    one.request = wait;
    pending.add(std::move(one));
  }
  const auto& all = pending.all();
  const Pending::Waiter& first = all.begin()->second;
  const Pending::Waiter& second = all.rbegin()->second;
  EXPECT_EQ(first.tokens[0].data(), second.tokens[0].data());
  EXPECT_EQ(first.tokens[0].data(), first.tokens[2].data());
  EXPECT_EQ(std::get<Wait>(first.request).keys,
            (std::vector<Bytes>{"here", "", "also here", "", ""}));
  EXPECT_TRUE(pending.fire('k' + big).empty());
  const auto fired = pending.fire("kz");
  ASSERT_EQ(fired.size(), 2u);
  for (const Pending::Waiter& one : fired) EXPECT_EQ(std::get<Wait>(one.request).keys, wait.keys);
}

TEST(Pending, GivesBackTheKeyOfEachKindOfRequest) {
  const auto again = [](Request request, Bytes token) {
    Pending pending;
    Pending::Waiter one = waiter(kFirst, 1, {std::move(token)}, 10);
    one.request = std::move(request);
    pending.add(std::move(one));
    return pending.drop(kFirst, 1)->request;
  };
  EXPECT_EQ(std::get<Get>(again(Get{.key = Blob("key")}, "kkey")).key, "key");
  EXPECT_EQ(std::get<MultiGet>(again(MultiGet{.keys = {"a", "key"}}, "kkey")).keys[1], "key");
  EXPECT_EQ(std::get<QueuePop>(again(QueuePop{.key = "key"}, "qkey")).key, "key");
  EXPECT_EQ(std::get<Watch>(again(Watch{.key = "dir/", .prefix = true}, "pdir/")).key, "dir/");
  EXPECT_EQ(std::get<Watch>(again(Watch{.key = "", .prefix = true}, "p")).key, "");
  const Bytes counter = Pending::counter_token("key", 7);
  EXPECT_EQ(
      std::get<WaitCounter>(again(WaitCounter{.key = Blob("key"), .at_least = 7}, counter)).key,
      "key");
}

TEST(Pending, ReleasesInOrderOfArrival) {
  Pending pending;
  pending.add(waiter(kSecond, 1, {"a"}, 30));
  pending.add(waiter(kFirst, 2, {"a", "b"}, 10));
  pending.add(waiter(kFirst, 3, {"a"}, 20));
  EXPECT_EQ(sequences(pending.fire("a")), (Sequences{1, 3}));
  EXPECT_EQ(sequences(pending.fire("b")), Sequences{2});
}

TEST(Pending, ExpiresInOrderOfDeadlineThenArrival) {
  Pending pending;
  pending.add(waiter(kFirst, 1, {"a"}, 20));
  pending.add(waiter(kFirst, 2, {"a"}, 10));
  pending.add(waiter(kSecond, 3, {"b"}, 10));
  pending.add(waiter(kSecond, 4, {"b"}, 30));
  EXPECT_EQ(pending.next_deadline(), at(10));
  EXPECT_TRUE(pending.expire(at(9)).empty());
  EXPECT_EQ(sequences(pending.expire(at(20))), (Sequences{2, 3, 1}));
  EXPECT_EQ(pending.next_deadline(), at(30));
  EXPECT_TRUE(pending.fire("a").empty());
  EXPECT_EQ(sequences(pending.fire("b")), Sequences{4});
}

TEST(Pending, DropsAllOfOneSessionAndNothingElse) {
  Pending pending;
  pending.add(waiter(kFirst, 2, {"a"}, 10));
  pending.add(waiter(kSecond, 1, {"a"}, 10));
  pending.add(waiter(kFirst, 1, {"b"}, 5));
  EXPECT_EQ(sequences(pending.drop(kFirst)), (Sequences{1, 2}));
  EXPECT_TRUE(pending.drop(kFirst).empty());
  EXPECT_EQ(pending.next_deadline(), at(10));
  EXPECT_EQ(sequences(pending.fire("a")), Sequences{1});
}

TEST(Pending, ReplacesTheSameCallOfASession) {
  Pending pending;
  pending.add(waiter(kFirst, 1, {"a"}, 10));
  pending.add(waiter(kFirst, 1, {"b"}, 40));
  EXPECT_EQ(pending.size(), 1u);
  EXPECT_EQ(pending.next_deadline(), at(40));
  EXPECT_TRUE(pending.fire("a").empty());
  EXPECT_EQ(sequences(pending.fire("b")), Sequences{1});
}

TEST(Pending, TakesAReleasedWaiterBackForWhatIsMissingAgain) {
  Pending pending;
  pending.add(waiter(kFirst, 1, {"a", "b"}, 10));
  EXPECT_TRUE(pending.fire("a").empty());
  std::vector<Pending::Waiter> released = pending.fire("b");
  ASSERT_EQ(released.size(), 1u);
  released[0].tokens = {"a"};
  pending.add(std::move(released[0]));
  EXPECT_EQ(sequences(pending.fire("a")), Sequences{1});
}

TEST(Pending, ReleasesOneAtATimeInOrderOfArrival) {
  Pending pending;
  pending.add(waiter(kSecond, 1, {"q"}, 30));
  pending.add(waiter(kFirst, 2, {"q"}, 10));
  pending.add(waiter(kSecond, 3, {"q"}, 40));
  EXPECT_FALSE(pending.fire_one("other"));
  EXPECT_EQ(pending.fire_one("q")->sequence, 1u);
  EXPECT_EQ(sequences(pending.expire(at(10))), Sequences{2});
  EXPECT_EQ(pending.fire_one("q")->sequence, 3u);
  EXPECT_FALSE(pending.fire_one("q"));
  EXPECT_FALSE(pending.waits_for("q"));
}

TEST(Pending, KnowsWhoWaitsForANumberThatIsReached) {
  Pending pending;
  const auto reached = [&](std::string_view key, std::int64_t number) {
    std::vector<Bytes> out;
    pending.counter_tokens(key, number, out);
    return out;
  };
  EXPECT_FALSE(pending.counts("n"));
  const auto token = [](std::string_view key, std::int64_t at_least) {
    return Pending::counter_token(key, at_least);
  };
  pending.add(waiter(kFirst, 1, {token("n", 3)}, 10));
  pending.add(waiter(kFirst, 2, {token("n", -3)}, 10));
  pending.add(waiter(kSecond, 3, {token("n", 3)}, 10));
  pending.add(waiter(kSecond, 4, {token("nn", 1)}, 10));
  EXPECT_TRUE(pending.counts("n"));
  EXPECT_FALSE(pending.counts("nnn"));
  EXPECT_TRUE(reached("n", -4).empty());
  EXPECT_EQ(reached("n", 2), std::vector<Bytes>{token("n", -3)});
  EXPECT_EQ(reached("n", 3), (std::vector<Bytes>{token("n", -3), token("n", 3)}));
  EXPECT_EQ(sequences(pending.fire(token("n", 3))), (Sequences{1, 3}));
  EXPECT_EQ(reached("n", 9), std::vector<Bytes>{token("n", -3)});
  EXPECT_TRUE(pending.drop(kFirst, 2));
  EXPECT_FALSE(pending.counts("n"));
  EXPECT_EQ(pending.audit(), std::nullopt);
  EXPECT_EQ(sequences(pending.expire(at(10))), Sequences{4});
  EXPECT_FALSE(pending.counts("nn"));
}

TEST(Pending, KeepsAWaiterWithoutADeadline) {
  Pending pending;
  Pending::Waiter endless = waiter(kFirst, 1, {"a"}, 10);
  endless.deadline = TimePoint::max();
  pending.add(std::move(endless));
  pending.add(waiter(kFirst, 2, {"a"}, 10));
  EXPECT_EQ(sequences(pending.expire(TimePoint::max())), Sequences{2});
  EXPECT_EQ(pending.next_deadline(), TimePoint::max()) << "time must go on";
  EXPECT_EQ(sequences(pending.fire("a")), Sequences{1});
  EXPECT_EQ(pending.next_deadline(), std::nullopt);
}

TEST(Pending, TellsWhichTokensOfARemovedWaiterHaveNotFired) {
  Pending pending;
  pending.add(waiter(kFirst, 1, {"a", "b", "c", "c"}, 10));
  pending.fire("b");
  pending.add(waiter(kSecond, 2, {"b"}, 20));
  const std::vector<Pending::Waiter> expired = pending.expire(at(10));
  ASSERT_EQ(expired.size(), 1u);
  EXPECT_EQ(expired[0].tokens, (std::vector<Blob>{"a", "c"}));
}

TEST(Pending, ReleasesTheOldestThatReserves) {
  Pending pending;
  pending.add(waiter(kFirst, 1, {"q"}, 10));
  for (const std::uint64_t sequence : {2, 3}) {
    Pending::Waiter reserving = waiter(kFirst, sequence, {"q"}, 10);
    reserving.reserves = true;
    pending.add(std::move(reserving));
  }
  EXPECT_FALSE(pending.fire_one_reserving("other"));
  EXPECT_EQ(pending.fire_one_reserving("q")->sequence, 2u);
  EXPECT_EQ(pending.fire_one_reserving("q")->sequence, 3u);
  EXPECT_FALSE(pending.fire_one_reserving("q"));
  EXPECT_EQ(sequences(pending.fire("q")), Sequences{1});
}

TEST(Pending, DropsOneCall) {
  Pending pending;
  pending.add(waiter(kFirst, 1, {"a"}, 10));
  pending.add(waiter(kFirst, 2, {"a"}, 20));
  EXPECT_FALSE(pending.drop(kFirst, 3));
  EXPECT_FALSE(pending.drop(kSecond, 1));
  EXPECT_EQ(pending.drop(kFirst, 1)->sequence, 1u);
  EXPECT_FALSE(pending.drop(kFirst, 1));
  EXPECT_EQ(pending.next_deadline(), at(20));
  EXPECT_EQ(sequences(pending.fire("a")), Sequences{2});
}

TEST(Pending, KnowsWhichPrefixesOfAKeyAreWaitedFor) {
  Pending pending;
  const auto tokens = [&](std::string_view key) {
    std::vector<Bytes> out;
    pending.prefix_tokens(key, out);
    return out;
  };
  EXPECT_TRUE(tokens("dir/key").empty());
  pending.add(waiter(kFirst, 1, {Pending::prefix_token("dir/")}, 10));
  pending.add(waiter(kFirst, 2, {Pending::prefix_token("")}, 20));
  pending.add(waiter(kSecond, 3, {Pending::prefix_token("dir2")}, 20));
  EXPECT_EQ(tokens("dir/key"), (std::vector<Bytes>{"p", "pdir/"}));
  EXPECT_EQ(tokens("dir"), std::vector<Bytes>{"p"});
  EXPECT_EQ(sequences(pending.fire("pdir/")), Sequences{1});
  EXPECT_EQ(tokens("dir2"), (std::vector<Bytes>{"p", "pdir2"}));
  pending.expire(at(20));
  EXPECT_TRUE(tokens("dir2").empty());
}

TEST(Pending, WeighsAll) {
  Pending pending;
  const auto heavy = [](std::uint64_t sequence, std::vector<Bytes> tokens, std::size_t weight) {
    Pending::Waiter one = waiter(kFirst, sequence, std::move(tokens), 10);
    one.weight = weight;
    return one;
  };
  pending.add(heavy(1, {"a", "b"}, 2));
  pending.add(heavy(1, {"a", "b", "c"}, 30));
  pending.add(heavy(2, {"a"}, 1));
  EXPECT_EQ(pending.weight(), 31u);
  pending.fire("a");
  EXPECT_EQ(pending.weight(), 30u);
  pending.drop(kFirst);
  EXPECT_EQ(pending.weight(), 0u);
  EXPECT_TRUE(pending.empty());
}

TEST(Pending, LosesAndRepeatsNobodyUnderRandomUse) {
  Pending pending;
  std::mt19937_64 random(1);
  std::set<std::uint64_t> inside;
  const auto leave = [&](const std::vector<Pending::Waiter>& waiters) {
    for (const std::uint64_t sequence : sequences(waiters)) EXPECT_EQ(inside.erase(sequence), 1u);
  };
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    const auto token = [&] { return std::to_string(random() % 20); };
    const SessionId session{0, random() % 5};
    switch (random() % 8) {
      case 0:
        leave(pending.fire(token()));
        break;
      case 1:
        leave(pending.expire(at(static_cast<int>(i / 10))));
        break;
      case 2:
        if (random() % 10 == 0) leave(pending.drop(session));
        break;
      default:
        inside.insert(i);
        pending.add(waiter(session, i, {token(), token(), token()},
                           static_cast<int>(i / 10 + random() % 20)));
    }
    ASSERT_EQ(pending.size(), inside.size());
    ASSERT_EQ(pending.next_deadline().has_value(), !inside.empty());
  }
  leave(pending.expire(at(1'000'000)));
  EXPECT_TRUE(inside.empty());
}

}  // namespace
}  // namespace c10dd::core
