// SPDX-License-Identifier: Apache-2.0
// Lookups of owners, over a server that is late, lies, closes the link, or serves again.
#include "daemon/shard/owner_lookup.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/unit/daemon/fleet_replies.h"
#include "tests/unit/daemon/listener_ports.h"

namespace c10dd::daemon {
namespace {

using test::FakeReply;
using test::resp_text;

class OwnerLookupTest : public testing::Test {
 protected:
  using Found = std::optional<Result<OwnerLookup::Found>>;

  void SetUp() override { be_good(); }
  void TearDown() override {
    redis_.server().release();
    lookup_.close();
  }

  void be_good() {
    redis_.say("beat", {{fleet_text(fleet(7))}});
    redis_.say("HGET", {{resp_text(store::redis_owner({9, 2}))}});
  }
  static store::FleetReading fleet(std::uint64_t heartbeat_count) {
    store::FleetReading fleet;
    fleet.heartbeat_count = heartbeat_count;
    fleet.daemons = {daemon_row(2, {"b:1"}, std::chrono::seconds(2)),
                     daemon_row(3, {"c:1"}, std::chrono::seconds(2))};
    return fleet;
  }

  std::shared_ptr<Found> find(const std::vector<JobNumber>& jobs) { return find(lookup_, jobs); }
  std::shared_ptr<Found> find(OwnerLookup& lookup, const std::vector<JobNumber>& jobs) {
    auto found = std::make_shared<Found>();
    lookup.find(jobs, [this, found](Result<OwnerLookup::Found> result) {
      EXPECT_FALSE(found->has_value()) << "told twice";
      *found = std::move(result);
      ++told_;
    });
    return found;
  }
  bool comes(const std::shared_ptr<Found>& found) {
    return turn_until([&] { return *found; });
  }
  template <class Condition>
  bool turn_until(Condition&& there) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!there()) {
      if (std::chrono::steady_clock::now() > end) return false;
      loop_.restart();
      loop_.run_one_for(std::chrono::milliseconds(1));
    }
    return true;
  }
  /// Looks up two jobs. Returns why it has failed, or an empty text.
  std::string failure_of(OwnerLookup& lookup) {
    const auto found = find(lookup, {1, 2});
    if (!comes(found)) return "no reply";
    if (**found) {
      EXPECT_EQ((**found)->owners.size(), 2u);
      return "";
    }
    EXPECT_EQ((**found).error().code, Code::unavailable);
    return (**found).error().detail;
  }

  store::FakeRedis redis_;
  int told_ = 0;
  Loop loop_;
  OwnerLookup lookup_{loop_, redis_.url()};
};

TEST_F(OwnerLookupTest, TwoAtATimeGetTheOwnersOfTheirJobsInOrder) {
  redis_.say("beat", {{fleet_text(fleet(7))}, {fleet_text(fleet(8))}});
  redis_.say("HGET", {{resp_text(store::redis_owner({9, 2}))},
                      {"$-1\r\n"},
                      {resp_text(store::redis_owner({4, 3}))},
                      {resp_text("nonsense")},
                      {resp_text(store::redis_owner({5, 2}))}});
  const auto first = find({11, 12});
  const auto second = find({21, 22, 23});
  const auto none = find({});
  ASSERT_TRUE(comes(first) && comes(second) && comes(none));
  using Owners = std::vector<std::optional<store::Owner>>;
  ASSERT_TRUE(**first && **second && **none);
  EXPECT_EQ((**first)->owners, (Owners{store::Owner{9, 2}, {}}));
  EXPECT_EQ((**first)->fleet.heartbeat_count, 7u);
  ASSERT_EQ((**first)->fleet.daemons.size(), 2u);
  EXPECT_EQ((**first)->fleet.daemons[1].facts.addresses, std::vector<std::string>{"c:1"});
  EXPECT_EQ((**second)->owners, (Owners{store::Owner{4, 3}, {}, store::Owner{5, 2}}));
  EXPECT_EQ((**second)->fleet.heartbeat_count, 8u);
  EXPECT_TRUE((**none)->owners.empty());
  std::vector<std::string> keys;
  for (const auto& words : redis_.commands("HGET")) keys.push_back(words.at(1));
  std::vector<std::string> expected;
  for (const JobNumber job : {11, 12, 21, 22, 23}) {
    expected.push_back(store::redis_head_key("c10dd", job));
  }
  EXPECT_EQ(keys, expected);
  EXPECT_EQ(redis_.server().connections(), 1) << "one link serves all";
}

TEST_F(OwnerLookupTest, OneMoreThanMayWaitIsRefusedAndWhenTheyHaveRepliesItIsServed) {
  redis_.say("beat", {late(fleet_text(fleet(7))), {fleet_text(fleet(7))}});
  std::vector<std::shared_ptr<Found>> all;
  for (std::size_t i = 0; i < OwnerLookup::kWaiting; ++i) all.push_back(find({1}));
  for (int round = 0; round < 3; ++round) {
    const auto refused = find({1});
    ASSERT_TRUE(refused->has_value()) << "at once";
    EXPECT_EQ((**refused).error().code, Code::unavailable);
    EXPECT_EQ((**refused).error().detail,
              "too many requests wait for the owner of a job: 64, limit 64");
  }
  ASSERT_TRUE(turn_until([&] { return redis_.server().held() == 1; }));
  EXPECT_EQ(told_, 3);
  redis_.server().release();
  for (const auto& one : all) {
    ASSERT_TRUE(comes(one));
    EXPECT_TRUE(**one);
  }
  all.clear();
  for (std::size_t i = 0; i < OwnerLookup::kWaiting; ++i) {
    all.push_back(find({1}));
    EXPECT_FALSE(all.back()->has_value()) << i << ": all places are free again";
  }
  for (const auto& one : all) EXPECT_TRUE(comes(one));
  EXPECT_EQ(redis_.server().connections(), 1);
}

TEST_F(OwnerLookupTest, AFailureLeavesItsPlaceFree) {
  redis_.say("HGET", {{"+lie\r\n"}});
  for (std::size_t i = 0; i <= OwnerLookup::kWaiting; ++i) ASSERT_NE(failure_of(lookup_), "");
  be_good();
  EXPECT_EQ(failure_of(lookup_), "");
}

TEST_F(OwnerLookupTest, ALinkThatTheServerHasClosedIsOpenedAnew) {
  redis_.say("HGET", {{resp_text(store::redis_owner({9, 2}))}, last("$-1\r\n")});
  EXPECT_EQ(failure_of(lookup_), "") << "the link is closed after the reply";
  redis_.say("HGET", {{"$-1\r\n"}});
  EXPECT_EQ(failure_of(lookup_), "");
  EXPECT_EQ(redis_.server().connections(), 2);
  EXPECT_EQ(failure_of(lookup_), "");
  EXPECT_EQ(redis_.server().connections(), 2);
}

TEST_F(OwnerLookupTest, AServerThatLiesIsAskedOnceMoreOnANewLinkAndNotForEver) {
  const std::string good = fleet_text(fleet(7));
  store::FleetReading damaged;
  const std::string row = resp_text("0000000000000002") + resp_text("no row");
  const std::vector<FakeReply> lies = {
      last(""),                               // closes
      last(good.substr(0, good.size() / 2)),  // in the middle of the reply
      {":1\r\n"},                             // another type
      {"*1\r\n:1\r\n"},                       // another size
      {"-ERR no\r\n"},                        // refuses
      {test::resp_array({resp_text(""), resp_text("0"), "*2\r\n" + row, resp_text("0"),
                         resp_text(""), resp_text("")})}};  // a damaged row
  for (const FakeReply& lie : lies) {
    be_good();
    ASSERT_EQ(failure_of(lookup_), "") << "it serves again";
    redis_.say("beat", {lie});
    const int before = redis_.server().asked("beat");
    EXPECT_NE(failure_of(lookup_), "") << lie.bytes;
    EXPECT_EQ(redis_.server().asked("beat"), before + 2) << "on the old link and on a new one";
    EXPECT_NE(failure_of(lookup_), "");
    EXPECT_EQ(redis_.server().asked("beat"), before + 3) << "there was no link";
  }
  EXPECT_LE(redis_.server().open_connections(), 1);
}

TEST_F(OwnerLookupTest, SecondLinkIsOfUseIfTheFirstLies) {
  ASSERT_EQ(failure_of(lookup_), "");
  redis_.say("beat", {{":1\r\n"}, {fleet_text(fleet(8))}});
  const auto found = find({1});
  ASSERT_TRUE(comes(found));
  ASSERT_TRUE(**found) << (**found).error().detail;
  EXPECT_EQ((**found)->fleet.heartbeat_count, 8u);
}

TEST_F(OwnerLookupTest, NobodyAndNoSharedEngine) {
  OwnerLookup nobody(loop_, "redis://" + own_host() + ":" + std::to_string(three_free_ports()));
  EXPECT_NE(failure_of(nobody).find("Connection refused"), std::string::npos);
  nobody.close();
  OwnerLookup alone(loop_, "memory:");
  EXPECT_EQ(failure_of(alone), "engine memory: cannot be shared by several daemons");
  alone.close();
}

TEST_F(OwnerLookupTest, AReplyAfterTheEndTellsNobody) {
  const auto found = find({1});
  lookup_.close();
  EXPECT_FALSE(found->has_value()) << "the loop has not turned";
  EXPECT_EQ(redis_.commands("HGET").size(), 1u) << "what was begun has ended";
}

}  // namespace
}  // namespace c10dd::daemon
