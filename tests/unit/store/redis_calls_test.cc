// SPDX-License-Identifier: Apache-2.0
// The Redis engine's other calls over a server that lies: opening, claims, releases, the changes of
// the directory, and reading in pages.
#include <gtest/gtest.h>

#include "protocol/epochs.h"
#include "store/engines.h"
#include "store/job_head.h"
#include "tests/unit/comes_true.h"
#include "tests/unit/store/engine_home.h"
#include "tests/unit/store/fake_redis.h"

namespace c10dd::store {
namespace {

using test::FakeReply;
using test::resp_array;
using test::resp_text;
using Words = FakeRedis::Words;

const std::string kNilReply = "$-1\r\n";
const std::string kPresentFormat = std::to_string(kStoredFormat) + ".1";

class RedisCalls : public testing::Test {
 protected:
  void open() { engine_ = open_engine(server_.url(), {.process = 1}).value(); }
  Failure refusal() {
    const auto engine = open_engine(server_.url());
    EXPECT_FALSE(engine);
    EXPECT_TRUE(test::comes_true([&] { return server_.server().open_connections() == 0; }));
    return engine ? Failure{} : engine.error();
  }
  /// The failure of a call with one of these replies, each of which ends the connection.
  template <class Call>
  void expect_unexpected(const std::string& name, const std::vector<std::string>& replies,
                         const Call& call) {
    store::expect_unexpected(
        server_, name, replies, [&] { open(); }, call, [&] { return engine_->jobs().has_value(); });
  }
  static std::string array(std::initializer_list<std::string> texts) {
    std::string all = "*" + std::to_string(texts.size()) + "\r\n";
    for (const std::string& text : texts) all += resp_text(text);
    return all;
  }

  FakeRedis server_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(RedisCalls, OpensOnlyWhatHasItsFormat) {
  server_.say("GET", {{resp_text(kPresentFormat)}});
  server_.say("SET", {{kNilReply}});
  open();
  EXPECT_EQ(server_.commands("SET"),
            (std::vector<Words>{{"SET", "c10dd:format", kPresentFormat, "NX"}}));
  server_.say("GET", {{resp_text(std::to_string(kStoredFormat))}});
  server_.say("SET", {{kNilReply}, {"+OK\r\n"}});
  open();
  EXPECT_EQ(server_.commands("SET").back(), (Words{"SET", "c10dd:format", kPresentFormat}))
      << "the older format is raised";
  server_.say("SET", {{kNilReply}, {kNilReply}});
  engine_.reset();
  EXPECT_NE(refusal().detail.find("unexpected reply to SET c10dd:format"), std::string::npos);
  server_.say("SET", {{":1\r\n"}});
  EXPECT_NE(refusal().detail.find("unexpected reply to SET c10dd:format"), std::string::npos);
  server_.say("SET", {{"+OK\r\n"}});
  server_.say("GET", {{kNilReply}, {resp_text("x" + std::string(50, '9'))}});
  EXPECT_NE(refusal().detail.find("unexpected reply to GET c10dd:format"), std::string::npos);
  const Failure other = refusal();
  EXPECT_EQ(other.code, Code::version_unsupported);
  EXPECT_NE(other.detail.find(" is x" + std::string(19, '9') + ","), std::string::npos);
  server_.say("SCRIPT", {{":1\r\n"}});
  EXPECT_NE(refusal().detail.find("unexpected reply to SCRIPT LOAD"), std::string::npos);
}

TEST_F(RedisCalls, AClaimMeansWhatItsReplySays) {
  open();
  server_.say("claim", {{array({"5", "9", "3 4 5 9"})},
                        {array({"held", "4:00000000000000ff", "77"})},
                        {array({"gone"})},
                        {array({"precondition"})},
                        {array({"head"})},
                        {"-ERR no\r\n"}});
  const ClaimReply claimed = engine_->claim(6, {}).value();
  EXPECT_EQ(std::get<Claim>(claimed).epoch, 5U);
  EXPECT_EQ(std::get<Claim>(claimed).revision, 9U);
  EXPECT_EQ(std::get<Claim>(claimed).starts, (std::vector<EpochStart>{{3, 4}, {5, 9}}));
  const ClaimReply held = engine_->claim(6, {}).value();
  EXPECT_EQ(std::get<Holder>(held), (Holder{{4, 255}, 77}));
  EXPECT_TRUE(std::holds_alternative<Gone>(engine_->claim(6, {}).value()));
  EXPECT_EQ(engine_->claim(6, {}).error().code, Code::state_rolled_back);
  EXPECT_EQ(engine_->claim(6, {}).error().code, Code::malformed);
  EXPECT_EQ(engine_->claim(6, {}).error().code, Code::unavailable);
  EXPECT_TRUE(engine_->jobs()) << "the connection is still of use";
  expect_unexpected("claim",
                    {array({"other"}), array({"held", "4", "77"}), array({"held", "4:1", "x"}),
                     array({"x", "9", "5 9"}), array({"5", "x", "5 9"}), array({"5", "9", ""}),
                     array({"5", "9", "5"}), array({"5", "9", "5 x"}), array({"5", "9"}), ":1\r\n"},
                    [&] { return engine_->claim(6, {}); });
}

TEST_F(RedisCalls, AClaimSendsItsTerms) {
  open();
  const ClaimTerms terms{{"state", "s"}, {"entry", "e"}, Holder{{4, 255}, 77}};
  ASSERT_TRUE(engine_->claim(6, terms));
  ASSERT_TRUE(engine_->claim(6, {}));
  const std::vector<Words> sent = server_.commands("claim");
  const std::string most = std::to_string(kEpochStarts);
  EXPECT_EQ(Words(sent[0].begin() + 2, sent[0].end()),
            (Words{"5", "c10dd:{6}:meta", "c10dd:{6}:rows", "c10dd:{0}:rows", "c10dd:fleet",
                   "c10dd:jobs", "6", "0000000000000001", "state", "s", "entry", "e",
                   "4:00000000000000ff", "77", most}));
  EXPECT_EQ(Words(sent[1].begin() + 8, sent[1].end()),
            (Words{"6", "0000000000000001", "", "", "", "", "", "0", most}));
}

TEST_F(RedisCalls, TheDirectoryIsOpenedAtItsRevision) {
  open();
  server_.say("directory", {{resp_text("12")}, {resp_text("head")}});
  EXPECT_EQ(engine_->claim(0)->revision, 12U);
  EXPECT_EQ(engine_->claim(0).error().code, Code::malformed);
  expect_unexpected("directory", {kNilReply, resp_text("x"), "*0\r\n"},
                    [&] { return engine_->claim(0); });
}

TEST_F(RedisCalls, ReleasesHandsOverAndForgets) {
  open();
  for (const std::string name : {"release", "hand_over", "forget"}) {
    server_.say(name, {{":1\r\n"}, {":0\r\n"}});
  }
  EXPECT_TRUE(engine_->release({6, 5}));
  EXPECT_EQ(engine_->release({0, 5}).error().code, Code::not_owner);
  EXPECT_EQ(server_.commands("release")[0].back(), "5:0000000000000001");
  EXPECT_EQ(server_.commands("release")[1].back(), "-");
  EXPECT_TRUE(engine_->hand_over({6, 5}, 255));
  EXPECT_EQ(engine_->hand_over({6, 5}, 255).error().code, Code::not_owner);
  EXPECT_EQ(server_.commands("hand_over")[0].back(), "00000000000000ff");
  EXPECT_TRUE(engine_->forget(6, {"mark", "m"}));
  EXPECT_TRUE(engine_->forget(6, {"mark", "m"})) << "the mark is not there";
  const Words sent = server_.commands("forget")[0];
  EXPECT_EQ(Words(sent.begin() + 2, sent.end()),
            (Words{"4", "c10dd:{6}:meta", "c10dd:{6}:rows", "c10dd:{0}:rows", "c10dd:jobs", "6",
                   "mark", "m"}));
  const std::vector<std::string> bad{"$1\r\n1\r\n", kNilReply, "*0\r\n"};
  expect_unexpected("release", bad, [&] { return engine_->release({6, 5}); });
  expect_unexpected("hand_over", bad, [&] { return engine_->hand_over({6, 5}, 2); });
  expect_unexpected("forget", bad, [&] { return engine_->forget(6, {"mark", "m"}); });
}

TEST_F(RedisCalls, ListsTheJobsInOrder) {
  open();
  server_.say("SMEMBERS", {{array({"10", "9", "200"})}, {"*0\r\n"}});
  EXPECT_EQ(engine_->jobs().value(), (std::vector<JobNumber>{9, 10, 200}));
  EXPECT_TRUE(engine_->jobs()->empty());
  expect_unexpected("SMEMBERS", {array({"1", "x", "2"}), resp_text("1"), ":0\r\n"},
                    [&] { return engine_->jobs(); });
}

TEST_F(RedisCalls, TellsTheChangesOrThatItDoesNotHaveThem) {
  open();
  const Rows one{{Row::Kind::put, "a", "1"}};
  const Rows two{{Row::Kind::erase, "b", ""}};
  server_.say("changes", {{array({"8", "3", encode_change(one), encode_change(two)})},
                          {array({"6", "0"})},
                          {"*0\r\n"},
                          {array({"8", "3", "damaged"})}});
  const std::optional<Changes> changes = engine_->changes(0, 6).value();
  ASSERT_TRUE(changes);
  EXPECT_EQ(changes->revision, 8U);
  EXPECT_EQ(changes->row_count, 3U);
  ASSERT_EQ(changes->rows.size(), 2U);
  EXPECT_EQ(server_.commands("changes")[0].back(), "6");
  EXPECT_EQ(engine_->changes(0, 6).value()->rows.size(), 0U);
  EXPECT_FALSE(engine_->changes(0, 6).value());
  EXPECT_FALSE(engine_->changes(0, 6).value());
  EXPECT_FALSE(engine_->changes(6, 6).value()) << "only the directory has them";
  EXPECT_EQ(server_.commands("changes").size(), 4U);
  expect_unexpected("changes",
                    {array({"8"}), array({"x", "3"}), array({"8", "x"}), resp_text("8"),
                     resp_array({resp_text("8"), resp_text("3"), ":1\r\n"})},
                    [&] { return engine_->changes(0, 6); });
}

}  // namespace
}  // namespace c10dd::store
