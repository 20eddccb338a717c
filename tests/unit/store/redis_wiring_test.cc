// SPDX-License-Identifier: Apache-2.0
// What the Redis engine makes of the replies to its commits and confirmations, over a server that
// forgets scripts, closes in the middle, and lies; and what it sends.
#include <gtest/gtest.h>

#include <future>

#include "store/engines.h"
#include "store/group_commit.h"
#include "tests/unit/comes_true.h"
#include "tests/unit/store/fake_redis.h"

namespace c10dd::store {
namespace {

using test::FakeReply;
using test::resp_array;
using test::resp_text;
using Words = FakeRedis::Words;

constexpr FakeReply::Then kEnd = FakeReply::Then::close;
const FakeReply kForgotten{"-NOSCRIPT none\r\n"};

JobBatch batch_from(JobNumber job, Revision from) {
  return {job, 1, from, from + 1, {{Row::Kind::put, "k", "v"}}};
}

class RedisWiring : public testing::Test {
 protected:
  void SetUp() override {
    auto engine = open_engine(server_.url() + "/one", {.process = 1});
    ASSERT_TRUE(engine) << engine.error().detail;
    engine_ = std::move(*engine);
  }
  void TearDown() override {
    engine_.reset();
    EXPECT_TRUE(test::comes_true([&] { return server_.server().open_connections() == 0; }));
  }
  static FakeReply text(const std::string& value) { return {resp_text(value)}; }
  /// Outcomes as letters: d(urable), f(enced), u(nknown), l(ost), a(bsent).
  static std::string letters(const std::vector<Outcome>& outcomes) {
    std::string all;
    for (const Outcome outcome : outcomes) all += "dfula"[static_cast<int>(outcome)];
    return all;
  }
  /// The jobs whose heads were the first keys of these commands.
  std::vector<std::string> heads_of(const std::string& name) const {
    std::vector<std::string> heads;
    for (const Words& words : server_.commands(name)) heads.push_back(words.at(3));
    return heads;
  }

  FakeRedis server_;
  std::unique_ptr<Engine> engine_;
  /// Three jobs, out of order, and two batches of one of them.
  const std::vector<JobBatch> batches_{batch_from(3, 0), batch_from(1, 0), batch_from(2, 0),
                                       batch_from(1, 1)};
  const std::vector<Ownership> owners_{{9, 1}, {8, 1}};
};

TEST_F(RedisWiring, EachOutcomeGoesToItsBatch) {
  server_.say("EVALSHA", {text("df"), text("l"), text("a")});  // of jobs 1, 2 and 3
  server_.say("HGET", {text("1:0000000000000001"), text("1:0000000000000002")});
  const Engine::Outcomes outcomes = engine_->commit_and_confirm(batches_, owners_);
  EXPECT_EQ(letters(outcomes.commits), "adlf");
  EXPECT_EQ(letters(outcomes.confirms), "df");
  EXPECT_EQ(outcomes.why, "");
  EXPECT_EQ(heads_of("EVALSHA"),
            (std::vector<std::string>{"one:{1}:meta", "one:{2}:meta", "one:{3}:meta"}));
  EXPECT_EQ(server_.commands("HGET"), (std::vector<Words>{{"HGET", "one:{9}:meta", "owner"},
                                                          {"HGET", "one:{8}:meta", "owner"}}));
  for (const Words& words : server_.commands("EVALSHA")) {
    EXPECT_EQ(words[1], "0123456789012345678901234567890123456789") << "the digest of the server";
  }
}

TEST_F(RedisWiring, OnlyTheScriptsThatWereNotRunAreSentAgain) {
  server_.say("EVALSHA", {text("df"), kForgotten, text("l")});
  server_.say("commit", {text("f")});
  const Engine::Outcomes outcomes = engine_->commit_and_confirm(batches_, owners_);
  EXPECT_EQ(letters(outcomes.commits), "ldff");
  EXPECT_EQ(letters(outcomes.confirms), "dd");
  EXPECT_EQ(heads_of("commit"), std::vector<std::string>{"one:{2}:meta"});
  EXPECT_EQ(letters(engine_->confirm(owners_)), "dd") << "no reply is left over";
  EXPECT_EQ(server_.server().connections(), 1);
}

TEST_F(RedisWiring, AServerThatRunsNoScriptIsGivenUp) {
  server_.say("EVALSHA", {kForgotten});
  server_.say("commit", {text("d"), kForgotten});
  const std::vector<JobBatch> two{batch_from(1, 0), batch_from(2, 0)};
  const Engine::Outcomes outcomes = engine_->commit_and_confirm(two, owners_);
  EXPECT_EQ(letters(outcomes.commits), "du");
  EXPECT_EQ(letters(outcomes.confirms), "dd");
  EXPECT_NE(outcomes.why.find("does not run the commit script"), std::string::npos);
  EXPECT_EQ(letters(engine_->commit(two)), "uu");
}

TEST_F(RedisWiring, WhatFollowsALostReplyIsUnknown) {
  struct Case {
    std::deque<FakeReply> commits;
    std::deque<FakeReply> confirms;
    std::string outcomes;
  };
  const FakeReply owned = text("1:0000000000000001");
  for (const Case& one :
       std::vector<Case>{{{{"", kEnd}}, {owned}, "uuuu uu"},
                         {{text("df"), {"$1", kEnd}}, {owned}, "uduf uu"},
                         {{text("df"), text("x"), text("d")}, {owned}, "uduf uu"},
                         {{text("df"), text("dd"), text("d")}, {owned}, "uduf uu"},
                         {{text("df"), {"-ERR no\r\n"}, text("d")}, {owned}, "uduf uu"},
                         {{text("df"), kForgotten, {"", kEnd}}, {owned}, "uduf uu"},
                         {{text("df"), text("d"), text("d")}, {owned, {"", kEnd}}, "dddf du"},
                         {{text("df"), text("d"), text("d")}, {{":1\r\n"}, owned}, "dddf uu"},
                         {{text("df"), text("d"), text("d")}, {{"-ERR no\r\n"}, owned}, "dddf uu"},
                         {{text("df"), text("d"), text("d")}, {{"$-1\r\n"}, owned}, "dddf ad"}}) {
    engine_ = open_engine(server_.url(), {.process = 1}).value();
    server_.say("EVALSHA", one.commits);
    server_.say("HGET", one.confirms);
    const Engine::Outcomes outcomes = engine_->commit_and_confirm(batches_, owners_);
    EXPECT_EQ(letters(outcomes.commits) + " " + letters(outcomes.confirms), one.outcomes);
    const bool lost = one.outcomes.find('u') != std::string::npos;
    EXPECT_EQ(outcomes.why.empty(), !lost) << one.outcomes;
    EXPECT_EQ(engine_->renew({1, 1}).has_value(), !lost) << one.outcomes;
  }
  EXPECT_TRUE(server_.commands("commit").empty()) << "nothing is repeated on a lost connection";
}

TEST_F(RedisWiring, RenewsOnlyWhatItOwns) {
  server_.say(
      "HGET",
      {text("4:0000000000000001"), text("4:0000000000000002"), {"$-1\r\n"}, text("-"), {"", kEnd}});
  EXPECT_TRUE(engine_->renew({5, 4}));
  EXPECT_EQ(engine_->renew({5, 4}).error().code, Code::not_owner);
  EXPECT_EQ(engine_->renew({5, 4}).error().code, Code::not_owner);
  EXPECT_TRUE(engine_->renew({0, 4})) << "the directory has no owner";
  EXPECT_EQ(engine_->renew({5, 4}).error().code, Code::unavailable);
}

TEST_F(RedisWiring, SendsEachBatchWithItsOwnerAndItsRevisions) {
  JobBatch directory{0, 0, 6, 8, {{Row::Kind::erase, "gone", ""}}, {{7, 3}, {8, 4}}, true};
  server_.say("EVALSHA", {text("d")});
  EXPECT_EQ(letters(engine_->commit({&directory, 1})), "d");
  const Words sent = server_.commands("EVALSHA").at(0);
  const std::string change = encode_change(directory.rows);
  EXPECT_EQ(Words(sent.begin() + 2, sent.end()), (Words{"5",
                                                        "one:{0}:meta",
                                                        "one:{0}:rows",
                                                        "one:{0}:changes",
                                                        "one:{7}:meta",
                                                        "one:{8}:meta",
                                                        "1",
                                                        "1",
                                                        "-",
                                                        "6",
                                                        "8",
                                                        "3",
                                                        "e",
                                                        "1",
                                                        "gone",
                                                        change,
                                                        "0000000000000001",
                                                        "1",
                                                        "3:0000000000000001",
                                                        "4:0000000000000001"}));
  server_.say("EVALSHA", {text("dd")});
  const std::vector<JobBatch> owned{batch_from(1, 0), {1, 1, 1, 1, {}}};
  EXPECT_EQ(letters(engine_->commit(owned)), "dd");
  const Words plain = server_.commands("EVALSHA").at(1);
  EXPECT_EQ(Words(plain.begin() + 2, plain.end()),
            (Words{"2", "one:{1}:meta", "one:{1}:rows", "2", "0", "1:0000000000000001", "0", "1",
                   "4", "p", "1", "k", "v", "1:0000000000000001", "1", "1", "0"}));
}

TEST_F(RedisWiring, TheGroupCommitTellsWhyAndAsksNoMore) {
  std::vector<CommitResult> results;
  server_.say("EVALSHA", {{"", kEnd}, text("d")});
  {
    GroupCommit group(std::move(engine_));
    for (std::uint64_t n = 0; n < 2; ++n) {
      group.submit({n, {batch_from(1, n)}, {{1, 1}}},
                   [&](CommitResult result) { results.push_back(std::move(result)); });
      std::promise<void> done;
      group.post([&](Engine&) { done.set_value(); });
      done.get_future().wait();
    }
  }
  ASSERT_EQ(results.size(), 2U);
  for (const CommitResult& result : results) {
    EXPECT_EQ(letters(result.jobs) + letters(result.confirms), "uu");
  }
  EXPECT_NE(results[0].why.find("the server closed the connection"), std::string::npos);
  EXPECT_EQ(server_.commands("EVALSHA").size(), 1U);
}

TEST_F(RedisWiring, TwoEnginesOnTwoServersKeepTheirPrefixesAndLossesApart) {
  FakeRedis other;
  other.say("INFO", {text("run_id:other\r\n")});
  const auto second = open_engine(other.url() + "/two", {.process = 2}).value();
  EXPECT_EQ(std::string(engine_->server()) + " " + std::string(second->server()),
            "0123456789 other");
  server_.say("EVALSHA", {{"", kEnd}});
  const std::vector<JobBatch> one{batch_from(1, 0)};
  EXPECT_EQ(letters(engine_->commit(one)) + letters(second->commit(one)), "ud");
  EXPECT_EQ(other.commands("EVALSHA").at(0).at(3), "two:{1}:meta");
  EXPECT_EQ(other.commands("EVALSHA").at(0).at(7), "1:0000000000000002");
  EXPECT_TRUE(engine_->jobs().has_error());
  EXPECT_TRUE(second->jobs());
  EXPECT_NE(engine_->checkpoint("/x").error().detail.find(std::to_string(server_.port())),
            std::string::npos);
}

}  // namespace
}  // namespace c10dd::store
