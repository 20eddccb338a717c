// SPDX-License-Identifier: Apache-2.0
// Which keys end when, and with which session. The effects are in scripts/ttl.txt and
// ephemeral.txt.
#include "daemon/core/keys/lifetimes.h"

#include <gtest/gtest.h>

#include "tests/unit/core/two_sessions.h"

namespace c10dd::core {
namespace {

using Keys = std::vector<Bytes>;

Expiry brief(int ttl) { return {std::chrono::seconds(ttl), {}}; }
Expiry owned(const SessionId& owner) { return {Duration{0}, owner}; }

TEST(Lifetimes, EndKeysInOrderOfTheirTime) {
  Lifetimes lives;
  lives.put("c", brief(2), at(10));
  lives.put("b", brief(1), at(10));
  lives.put("a", brief(2), at(10));
  lives.put("for ever", {}, at(10));
  EXPECT_EQ(lives.next_deadline(), at(11));
  EXPECT_TRUE(lives.due(at(10), 10).empty());
  EXPECT_EQ(lives.due(at(11), 10), Keys{"b"});
  EXPECT_EQ(lives.due(at(99), 10), (Keys{"b", "a", "c"}));
  EXPECT_EQ(lives.due(at(99), 2), (Keys{"b", "a"}));
  lives.erase("b");
  lives.erase("b");
  EXPECT_EQ(lives.next_deadline(), at(12));
}

TEST(Lifetimes, KnowOnlyTheNewestLifeOfAKey) {
  Lifetimes lives;
  lives.put("k", brief(1), at(0));
  lives.put("k", brief(5), at(0));
  EXPECT_EQ(lives.next_deadline(), at(5));
  lives.put("k", owned(kFirst), at(0));
  EXPECT_EQ(lives.next_deadline(), std::nullopt);
  EXPECT_EQ(lives.owned_by(kFirst), Keys{"k"});
  lives.put("k", owned(kSecond), at(0));
  EXPECT_TRUE(lives.owned_by(kFirst).empty());
  EXPECT_EQ(lives.owners(), std::vector<SessionId>{kSecond});
  lives.put("k", {}, at(0));
  EXPECT_TRUE(lives.owners().empty());
  EXPECT_TRUE(lives.find("k").endless());
}

TEST(Lifetimes, MayHaveBothEnds) {
  Lifetimes lives;
  lives.put("k", {std::chrono::seconds(3), kFirst}, at(0));
  EXPECT_EQ(lives.find("k").ttl, std::chrono::seconds(3));
  EXPECT_EQ(lives.find("k").owner, kFirst);
  EXPECT_EQ(lives.next_deadline(), at(3));
  lives.erase("k");
  EXPECT_EQ(lives.next_deadline(), std::nullopt);
  EXPECT_TRUE(lives.owned_by(kFirst).empty());
  EXPECT_TRUE(lives.find("k").endless());
}

TEST(Lifetimes, NameTheKeysOfEachSession) {
  Lifetimes lives;
  lives.put("b", owned(kFirst), at(0));
  lives.put("a", owned(kFirst), at(0));
  lives.put("c", owned(kSecond), at(0));
  EXPECT_EQ(lives.owned_by(kFirst), (Keys{"a", "b"}));
  EXPECT_EQ(lives.owned_by(kSecond), Keys{"c"});
  EXPECT_TRUE(lives.owned_by({9, 9}).empty());
  EXPECT_EQ(lives.owners(), (std::vector<SessionId>{kFirst, kSecond}));
}

TEST(Lifetimes, StartInFullAfterARestart) {
  Lifetimes lives;
  lives.put("a", brief(5), TimePoint{});
  lives.put("b", brief(7), TimePoint{});
  lives.put("c", owned(kFirst), TimePoint{});
  lives.resume(at(1'000));
  EXPECT_EQ(lives.next_deadline(), at(1'005));
  EXPECT_EQ(lives.due(at(1'007), 10), (Keys{"a", "b"}));
  lives.erase("a");
  lives.erase("b");
  EXPECT_EQ(lives.next_deadline(), std::nullopt);
}

}  // namespace
}  // namespace c10dd::core
