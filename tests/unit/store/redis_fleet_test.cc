// SPDX-License-Identifier: Apache-2.0
// The link to the fleet and the watch of a Redis server, over servers that lie, are silent, late,
// close, or refuse once and then serve.
#include <gtest/gtest.h>

#include "protocol/fields.h"
#include "protocol/limits.h"
#include "store/engines.h"
#include "tests/unit/comes_true.h"
#include "tests/unit/store/fake_redis.h"

namespace c10dd::store {
namespace {

using namespace std::chrono_literals;
using test::FakeReply;
using test::resp_array;
using test::resp_text;
using Words = FakeRedis::Words;

std::string row_of(std::uint64_t process, std::uint64_t beats) {
  return resp_text(std::to_string(beats) + " " + wire::encode(DaemonFacts{process, {}, "1", 2s}));
}

/// The reply to a heartbeat, with these daemons.
std::string reading(const std::string& daemons = "*0\r\n") {
  return resp_array({resp_text("inc"), resp_text("12"), daemons, resp_text("34"),
                     resp_text("told\x1b"), resp_text("acc")});
}

class RedisFleetWiring : public testing::Test {
 protected:
  RedisFleetWiring() { server_.say("beat", {{reading()}}); }
  void TearDown() override {
    fleet_.reset();
    EXPECT_TRUE(test::comes_true([&] { return server_.server().open_connections() == 0; }));
  }
  void open() { fleet_ = open_fleet(server_.url() + "/one").value(); }
  template <class Call>
  void expect_unexpected(const std::string& name, const std::vector<std::string>& replies,
                         const Call& call) {
    store::expect_unexpected(
        server_, name, replies, [&] { open(); }, call,
        [&] { return fleet_->remove(1, 1).has_value(); });
  }

  FakeRedis server_;
  std::unique_ptr<Fleet> fleet_;
};

TEST_F(RedisFleetWiring, AHeartbeatSendsItsFactsAndReadsAllParts) {
  open();
  const DaemonFacts self{255, {"a:1"}, "2", 3s};
  server_.say(
      "beat",
      {{reading(resp_array({resp_text("b"), row_of(9, 90), resp_text("a"), row_of(2, 20)}))}});
  const Result<FleetReading> now = fleet_->beat(self);
  ASSERT_TRUE(now) << now.error().detail;
  EXPECT_EQ(now->incarnation + now->rolled_back + now->accepted, "inctold?acc");
  EXPECT_EQ(now->directory, 12U);
  EXPECT_EQ(now->heartbeat_count, 34U);
  ASSERT_EQ(now->daemons.size(), 2U);
  EXPECT_EQ(now->daemons[0].facts.process, 2U) << "in the order of their numbers";
  EXPECT_EQ(now->daemons[0].beats, 20U);
  EXPECT_EQ(now->daemons[1].beats, 90U);
  ASSERT_TRUE(fleet_->read());
  const std::vector<Words> sent = server_.commands("beat");
  const std::string most = std::to_string(limits::kDaemons);
  EXPECT_EQ(Words(sent[0].begin() + 2, sent[0].end()),
            (Words{"4", "one:fleet", "one:{0}:meta", "one:{0}:rows", "one:pulse",
                   "00000000000000ff", wire::encode(self), most}));
  EXPECT_EQ(Words(sent[1].begin() + 7, sent[1].end()), (Words{"0000000000000000", "", most}))
      << "to read is no heartbeat";
}

TEST_F(RedisFleetWiring, AFullFleetAndADamagedRowKeepTheConnection) {
  open();
  server_.say("beat",
              {{resp_array({resp_text("full")})},
               {reading(resp_array(
                   {resp_text("a"), row_of(1, 1), resp_text("b\x1b"), resp_text("1 damaged")}))},
               {reading(resp_array({resp_text("c"), resp_text("nospace")}))},
               {reading(resp_array({resp_text("d"), resp_text("x" + row_of(1, 1).substr(5))}))},
               {reading()}});
  EXPECT_EQ(fleet_->read().error().code, Code::quota_exceeded);
  for (const std::string name : {"b?", "c", "d"}) {
    const Failure damaged = fleet_->read().error();
    EXPECT_EQ(damaged.code, Code::malformed);
    EXPECT_NE(damaged.detail.find("HDEL one:fleet " + name + ":"), std::string::npos)
        << damaged.detail;
  }
  EXPECT_TRUE(fleet_->read());
  EXPECT_EQ(server_.server().connections(), 1);
}

TEST_F(RedisFleetWiring, AReadingOfAnotherShapeEndsTheConnection) {
  const std::string text = resp_text("1");
  const std::string none = "*0\r\n";
  expect_unexpected("beat",
                    {resp_array({text}), resp_array({text, text, none, text, text}),
                     resp_array({":1\r\n", text, none, text, text, text}),
                     resp_array({text, resp_text("x"), none, text, text, text}),
                     resp_array({text, text, text, text, text, text}),
                     resp_array({text, text, resp_array({text}), text, text, text}),
                     resp_array({text, text, none, ":1\r\n", text, text}),
                     resp_array({text, text, none, text, ":1\r\n", text}),
                     resp_array({text, text, none, text, text, ":1\r\n"})},
                    [&] { return fleet_->read(); });
}

TEST_F(RedisFleetWiring, TellsWhatItMustAndChecksTheReply) {
  open();
  server_.say("leave", {{":1\r\n"}});
  server_.say("accept", {{":1\r\n"}});
  EXPECT_TRUE(fleet_->remove(255, 7));
  EXPECT_TRUE(fleet_->report_rollback("lost"));
  EXPECT_TRUE(fleet_->accept_rollback("inc"));
  const Words left = server_.commands("leave")[0];
  EXPECT_EQ(Words(left.begin() + 2, left.end()),
            (Words{"1", "one:fleet", "00000000000000ff", "7"}));
  EXPECT_EQ(server_.commands("HSETNX")[0], (Words{"HSETNX", "one:pulse", "rolled_back", "lost"}));
  const Words accepted = server_.commands("accept")[0];
  EXPECT_EQ(Words(accepted.begin() + 2, accepted.end()), (Words{"1", "one:pulse", "inc"}));
  const std::vector<std::string> bad{"+OK\r\n", "$1\r\n1\r\n", "*0\r\n"};
  expect_unexpected("HSETNX", bad, [&] { return fleet_->report_rollback("lost"); });
  expect_unexpected("accept", bad, [&] { return fleet_->accept_rollback("inc"); });
  expect_unexpected("leave", bad, [&] { return fleet_->remove(1, 1); });
}

TEST_F(RedisFleetWiring, AsksForManyOwnersInOrder) {
  open();
  std::vector<JobNumber> jobs(2'050);
  std::deque<FakeReply> replies;
  for (std::size_t n = 0; n < jobs.size(); ++n) {
    jobs[n] = 10 + n;
    const std::string owner = redis_owner({n + 1, 2 * n});
    replies.push_back(n % 100 == 7   ? FakeReply{"$-1\r\n"}
                      : n % 100 == 8 ? FakeReply{resp_text("")}
                                     : FakeReply{resp_text(owner)});
  }
  server_.say("HGET", replies);
  const auto owners = fleet_->owners(jobs);
  ASSERT_TRUE(owners) << owners.error().detail;
  ASSERT_EQ(owners->size(), jobs.size());
  for (std::size_t n = 0; n < jobs.size(); ++n) {
    const bool none = n % 100 == 7 || n % 100 == 8;
    ASSERT_EQ((*owners)[n], none ? std::nullopt : std::optional(Owner{n + 1, 2 * n})) << n;
  }
  EXPECT_EQ(server_.commands("HGET").back(), (Words{"HGET", "one:{2059}:meta", "owner"}));
  EXPECT_TRUE(fleet_->owners({})->empty());
  EXPECT_EQ(server_.commands("HGET").size(), jobs.size());
  server_.say("leave", {{":1\r\n"}});
  EXPECT_TRUE(fleet_->remove(1, 1)) << "no reply is left over";
  const std::vector<JobNumber> two{1, 2};
  expect_unexpected("HGET", {":1\r\n", "-ERR no\r\n"}, [&] { return fleet_->owners(two); });
  server_.say("HGET", {{resp_text("1:1")}, {"", FakeReply::Then::close}});
  EXPECT_EQ(fleet_->owners(two).error().code, Code::unavailable);
  EXPECT_EQ(fleet_->owners(two).error().code, Code::unavailable);
}

TEST_F(RedisFleetWiring, ALateHeartbeatIsNotTakenForTheNextOne) {
  ASSERT_TRUE(test::comes_true([&] {
    auto opened = open_fleet(server_.url(), 50ms);
    if (opened) fleet_ = std::move(*opened);
    return fleet_ != nullptr;
  }));
  server_.say("beat", {{"", {}, reading()}, {resp_array({resp_text("full")})}});
  EXPECT_NE(fleet_->read().error().detail.find("no reply within 0.05 s"), std::string::npos);
  ASSERT_TRUE(test::comes_true([&] { return server_.server().held() == 1; }));
  server_.server().release();
  EXPECT_NE(fleet_->read().error().detail.find("no reply within 0.05 s"), std::string::npos);
  open();
  EXPECT_EQ(fleet_->read().error().code, Code::quota_exceeded) << "the reply to this one";
}

TEST_F(RedisFleetWiring, TwoFleetsOnTwoServersDoNotMeet) {
  FakeRedis other;
  other.say("beat", {{resp_array({resp_text("full")})}});
  other.say("INFO", {{resp_text("run_id:other\r\n")}});
  open();
  const auto second = open_fleet(other.url()).value();
  EXPECT_TRUE(fleet_->read());
  EXPECT_FALSE(second->read());
  EXPECT_EQ(std::string(fleet_->server()) + std::string(second->server()), "0123456789other");
}

}  // namespace
}  // namespace c10dd::store
