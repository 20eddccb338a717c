// SPDX-License-Identifier: Apache-2.0
// Which address a client tries next, after each kind of failure.
#include "client/core/addresses.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "protocol/limits.h"

namespace c10dd::client {
namespace {

using std::chrono::seconds;
using Names = std::vector<std::string>;

constexpr Duration kMost = seconds(60);

/// Addresses that begin at the first of `given`, with whatever seed this takes.
Addresses beginning(const Names& given) {
  for (std::uint64_t seed = 0;; ++seed) {
    Addresses addresses(given, seed);
    if (addresses.current() == given.front()) return addresses;
  }
}

std::string absence(const Addresses& addresses) {
  return addresses.absence(seconds(12), "refused last");
}

TEST(Addresses, BeginAtARandomOneOfTheGiven) {
  std::map<std::string, int> first;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    ++first[Addresses({"a:1", "b:1", "c:1"}, seed).current()];
  }
  EXPECT_EQ(first.size(), 3u);
  for (const auto& [address, times] : first) EXPECT_GT(times, 60) << address;
  EXPECT_EQ(Addresses({"a:1", "b:1", "c:1"}, 7).current(),
            Addresses({"a:1", "b:1", "c:1"}, 7).current());
}

TEST(Addresses, EachIsTriedOnceInARound) {
  Addresses a({"a:1", "b:1", "c:1"}, 5);
  for (int round = 0; round < 3; ++round) {
    std::set<std::string> tried = {a.current()};
    EXPECT_TRUE(a.leave("refused"));
    tried.insert(a.current());
    EXPECT_TRUE(a.leave("refused"));
    tried.insert(a.current());
    EXPECT_EQ(tried.size(), 3u);
    EXPECT_FALSE(a.leave("refused")) << "all were tried";
  }
}

TEST(Addresses, OneAloneIsTriedAgainAfterAWait) {
  Addresses a({"a:1"}, 1);
  EXPECT_FALSE(a.several());
  EXPECT_FALSE(a.leave("refused"));
  EXPECT_EQ(a.current(), "a:1");
}

TEST(Addresses, ASessionIsLookedForWhereItWas) {
  Addresses a = beginning({"a:1", "b:1"});
  EXPECT_TRUE(a.leave("refused"));
  a.welcome({});
  a.stay("lost");
  EXPECT_EQ(a.current(), "b:1");
  EXPECT_TRUE(a.leave("refused")) << "the Welcome has begun a round";
  EXPECT_EQ(a.current(), "a:1");
}

TEST(Addresses, TheNewestFleetReplacesTheOlderAndTheGivenStay) {
  Addresses a = beginning({"a:1"});
  a.welcome({"b:1", "a:1", "c:1"});
  EXPECT_TRUE(a.several());
  EXPECT_TRUE(a.leave("refused"));
  EXPECT_EQ(a.current(), "b:1");
  a.welcome({"b:1", "d:1"});
  EXPECT_TRUE(a.leave("refused"));
  EXPECT_EQ(a.current(), "d:1") << "c is not in the newest list, and a was given first";
  EXPECT_TRUE(a.leave("refused"));
  EXPECT_EQ(a.current(), "a:1");
  EXPECT_FALSE(a.leave("refused"));
  a.welcome({});
  EXPECT_EQ(a.current(), "b:1") << "the daemon of the session, whatever the list says";
  EXPECT_TRUE(a.leave("refused"));
  EXPECT_EQ(a.current(), "a:1");
  EXPECT_FALSE(a.several());
}

TEST(Addresses, AFleetIsCheckedAndBounded) {
  Addresses a = beginning({"a:1"});
  a.welcome({"", "nowhere", ":1", "host:", "x\ny:1", std::string(999, 'a') + ":1", "a:1"});
  EXPECT_FALSE(a.several());
  Names many;
  for (int i = 1; i <= 100'000; ++i) many.push_back("h:" + std::to_string(i));
  a.welcome(many);
  std::size_t tried = 1;
  while (a.leave("refused")) ++tried;
  EXPECT_EQ(tried, 1 + limits::kDaemons * limits::kAdvertised);
}

TEST(Addresses, TheLoopbackAddressesOfAnotherMachineAreIgnored) {
  const Names local = {"127.0.0.1:1", "[::1]:1", "localhost:1", "127.1.2.3:1"};
  Addresses a = beginning({"head:1"});
  a.connected(true);
  a.welcome(local);
  EXPECT_FALSE(a.several());
  EXPECT_FALSE(a.redirect("not the owner", local));
  EXPECT_EQ(a.ignored(local), "127.0.0.1:1");
  EXPECT_EQ(a.ignored({"10.0.0.1:1"}), "");
  ASSERT_TRUE(a.redirect("not the owner", {"127.0.0.1:1", "10.0.0.1:1"}));
  EXPECT_EQ(a.current(), "10.0.0.1:1");
  a.connected(false);
  a.welcome(local);
  EXPECT_TRUE(a.several()) << "this daemon is on the same machine";
  EXPECT_EQ(a.ignored(local), "");
}

TEST(Addresses, ARedirectGoesFirstThenTheOthersOfARound) {
  Addresses a = beginning({"a:1", "b:1"});
  ASSERT_TRUE(a.redirect("not the owner", {"x:1", "y:1", "x:1"}));
  EXPECT_EQ(a.current(), "x:1");
  EXPECT_TRUE(a.quick());
  EXPECT_TRUE(a.leave("refused"));
  EXPECT_EQ(a.current(), "y:1");
  EXPECT_TRUE(a.leave("refused"));
  EXPECT_EQ(a.current(), "b:1") << "a has answered in this round";
  EXPECT_FALSE(a.leave("refused"));
  EXPECT_EQ(a.current(), "a:1");
}

TEST(Addresses, ARedirectToAnotherReplacesTheTargetsBefore) {
  Addresses a = beginning({"a:1"});
  ASSERT_TRUE(a.redirect("not the owner", {"x:1", "y:1"}));
  ASSERT_TRUE(a.redirect("not the owner", {"z:1"}));
  EXPECT_EQ(a.current(), "z:1");
  EXPECT_FALSE(a.leave("refused"));
  EXPECT_EQ(a.current(), "a:1");
}

TEST(Addresses, ARoundBeginsBehindTheAddressThatFailedLast) {
  Addresses a = beginning({"a:1", "b:1"});
  ASSERT_TRUE(a.redirect("not the owner", {"b:1"}));
  EXPECT_FALSE(a.leave("refused"));
  EXPECT_EQ(a.current(), "a:1") << "b was tried just now";
}

TEST(Addresses, ARedirectWithoutAnAddressIsNone) {
  Addresses a = beginning({"a:1", "b:1"});
  EXPECT_FALSE(a.redirect("not the owner", {}));
  EXPECT_FALSE(a.redirect("not the owner", {"nowhere", "b:"}));
  EXPECT_EQ(a.current(), "a:1");
  EXPECT_TRUE(a.quick());
}

TEST(Addresses, FourRedirectsInARowAreQuick) {
  Addresses a = beginning({"a:1", "b:1"});
  const auto follow = [&a] {
    EXPECT_TRUE(a.redirect("not the owner", {a.current() == "a:1" ? "b:1" : "a:1"}));
    return a.quick();
  };
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(follow()) << i;
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(follow()) << i;
  a.leave("refused");
  EXPECT_FALSE(follow()) << "a failure between them does not make them quick";
  a.welcome({});
  EXPECT_FALSE(follow()) << "nor does a session that has served nothing";
  a.served();
  EXPECT_TRUE(follow());
}

TEST(Addresses, OnlyWhoKnowsAnotherIsImpatient) {
  Addresses one = beginning({"a:1"});
  EXPECT_EQ(one.patience(kMost), kMost);
  one.leave("silent", true);
  one.leave("silent", true);
  one.welcome({"b:1"});
  EXPECT_EQ(one.patience(kMost), 2 * Addresses::kPatience) << "it was slow";
  Addresses two = beginning({"a:1", "b:1"});
  EXPECT_EQ(two.patience(kMost), seconds(1));
  EXPECT_EQ(two.patience(seconds(1) / 2), seconds(1) / 2);
  Addresses redirected = beginning({"a:1"});
  ASSERT_TRUE(redirected.redirect("not the owner", {"x:1"}));
  EXPECT_EQ(redirected.patience(kMost), seconds(1)) << "a is known beside x";
}

TEST(Addresses, PatienceGrowsWithEachRoundThatWasSlow) {
  Addresses a = beginning({"a:1", "b:1"});
  const auto round = [&a](bool slow) {
    a.leave("no", slow);
    EXPECT_FALSE(a.leave("no"));
    return a.patience(kMost);
  };
  EXPECT_EQ(round(false), seconds(1)) << "refusals take no time";
  EXPECT_EQ(round(true), seconds(2));
  EXPECT_EQ(round(false), seconds(2));
  EXPECT_EQ(round(true), seconds(4));
  for (int i = 0; i < 10; ++i) round(true);
  EXPECT_EQ(a.patience(kMost), Addresses::kPatienceMax);
  a.leave("no", false);
  a.welcome({});
  EXPECT_EQ(a.patience(kMost), seconds(1)) << "this one was not slow";
  a.leave("no", true);
  a.welcome({});
  EXPECT_EQ(round(false), seconds(1)) << "the slow round has ended with a Welcome";
}

TEST(Addresses, AFalseAlarmMakesPatient) {
  Addresses a = beginning({"a:1", "b:1"});
  a.welcome({});
  for (const int expected : {2, 4, 8}) {
    EXPECT_TRUE(a.leave("silent", true));
    ASSERT_TRUE(a.redirect("not the owner", {"a:1"}));
    a.welcome({});
    EXPECT_EQ(a.patience(kMost), seconds(expected));
  }
  a.stay("lost");
  a.welcome({});
  EXPECT_EQ(a.patience(kMost), seconds(1));
}

TEST(Addresses, TheTextNamesEachThatWasTriedAndWhy) {
  Addresses a = beginning({"a:1", "b:2", "c:3"});
  EXPECT_EQ(absence(a), "the daemon at a:1 has not been reachable for 12 s (refused last)");
  a.leave("connection refused");
  EXPECT_EQ(absence(a), "the daemon at a:1 has not been reachable for 12 s (refused last)");
  a.leave("silent");
  EXPECT_EQ(absence(a),
            "the daemons at a:1, b:2 have not been reachable for 12 s (a:1: connection refused; "
            "b:2: silent)");
  ASSERT_TRUE(a.redirect("not the owner", {"x:4"}));
  a.leave("no route");
  EXPECT_EQ(absence(a),
            "the daemons at a:1, b:2, c:3, x:4 have not been reachable for 12 s (a:1: connection "
            "refused; b:2: silent; c:3: not the owner; x:4: no route)");
  a.welcome({});
  a.stay("lost");
  EXPECT_EQ(absence(a), "the daemon at a:1 has not been reachable for 12 s (refused last)");
}

TEST(Addresses, TheTextShowsACircle) {
  Addresses a = beginning({"a:1", "b:2"});
  ASSERT_TRUE(a.redirect("not the owner", {"b:2"}));
  EXPECT_EQ(absence(a).find("circle"), std::string::npos);
  ASSERT_TRUE(a.redirect("not the owner", {"a:1"}));
  EXPECT_NE(absence(a).find("; the redirects lead in a circle: a:1 -> b:2 -> a:1)"),
            std::string::npos)
      << absence(a);
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(a.redirect("not the owner", {a.current() == "a:1" ? "b:2" : "a:1"}));
  }
  EXPECT_NE(absence(a).find("circle: a:1 -> b:2 -> a:1)"), std::string::npos) << absence(a);
  a.leave("connection refused");
  EXPECT_EQ(absence(a).find("circle"), std::string::npos) << absence(a);
  Addresses self = beginning({"a:1"});
  ASSERT_TRUE(self.redirect("not the owner", {"a:1"}));
  EXPECT_EQ(absence(self),
            "the daemon at a:1 has not been reachable for 12 s (refused last; the redirects lead "
            "in a circle: a:1 -> a:1)");
}

TEST(Addresses, TheTextOfAManyIsShort) {
  Names many;
  for (int i = 1; i <= 16; ++i) many.push_back("h:" + std::to_string(i));
  Addresses a(many, 1);
  while (a.leave("refused")) continue;
  EXPECT_EQ(absence(a),
            "the daemons at h:1, h:2, h:3, h:4, h:5, h:6 and 10 more have not been reachable for "
            "12 s (h:1: refused; h:2: refused; h:3: refused; h:4: refused; h:5: refused; h:6: "
            "refused)");
}

}  // namespace
}  // namespace c10dd::client
