// SPDX-License-Identifier: Apache-2.0
// What only the Redis engine has: addresses, two daemons on one server, a server that forgets
// scripts, restarts, is set up weakly, or answers nonsense.
#include <gtest/gtest.h>

#include "protocol/utf8.h"
#include "store/engines.h"
#include "store/redis/commands.h"
#include "store/server_watch.h"
#include "tests/unit/store/engine_home.h"
#include "tests/unit/store/fake_redis.h"
#include "tests/unit/store/redis_server.h"

namespace c10dd::store {
namespace {

using Outcomes = std::vector<Outcome>;
using Replies = std::map<std::string, std::string>;

TEST(RedisAddress, IsReadFromTheUrl) {
  const auto full = parse_redis_address("//db.example:7000/team-1");
  ASSERT_TRUE(full) << full.error().detail;
  EXPECT_EQ(full->host, "db.example");
  EXPECT_EQ(full->port, 7000);
  EXPECT_EQ(full->prefix, "team-1");
  const auto brief = parse_redis_address("//db");
  ASSERT_TRUE(brief) << brief.error().detail;
  EXPECT_EQ(brief->port, 6379);
  EXPECT_EQ(brief->prefix, "c10dd");
  const auto v6 = parse_redis_address("//[::1]:7000/");
  ASSERT_TRUE(v6) << v6.error().detail;
  EXPECT_EQ(v6->host, "::1");
  EXPECT_EQ(v6->port, 7000);
}

TEST(RedisAddress, RefusesWhatItCannotRead) {
  for (const std::string text : {"",
                                 "db",
                                 "//",
                                 "//:7000",
                                 "//db:",
                                 "//db:0",
                                 "//db:65536",
                                 "//db:7x",
                                 "//[::1",
                                 "//[::1]7000",
                                 "//db/a{b}",
                                 "//db/a/b",
                                 "//hunter2@db",
                                 "//@db",
                                 "//user:@db",
                                 "//:hunter2%4@db",
                                 "//:hunter2%zz@db",
                                 "//:hunter2@",
                                 "//:hunter2@db:x",
                                 "//:hunter2/@db",
                                 ":hunter2@db",
                                 "//:hunter2@db/a/b"}) {
    const auto address = parse_redis_address(text);
    ASSERT_FALSE(address) << text;
    EXPECT_EQ(address.error().code, Code::invalid_argument) << text;
    EXPECT_EQ(address.error().detail.find("hunter2"), std::string::npos) << address.error().detail;
  }
}

TEST(RedisAddress, MayHaveAPassword) {
  const auto brief = parse_redis_address("//:p%40%2f%3A%25@[::1]:7000/team");
  ASSERT_TRUE(brief) << brief.error().detail;
  EXPECT_EQ(brief->user, "");
  EXPECT_EQ(brief->password, "p@/:%");
  EXPECT_EQ(brief->host, "::1");
  EXPECT_EQ(brief->port, 7000);
  EXPECT_EQ(brief->prefix, "team");
  const auto full = parse_redis_address("//ada:hunter2@db");
  ASSERT_TRUE(full) << full.error().detail;
  EXPECT_EQ(full->user, "ada");
  EXPECT_EQ(full->password, "hunter2");
  EXPECT_EQ(full->port, 6379);
}

TEST(WithoutPassword, HidesAllThatMayBeOne) {
  EXPECT_EQ(without_password("redis://:a@b/c"), "redis://***@b/c");
  EXPECT_EQ(without_password("redis://u:a@b@c:1"), "redis://***@c:1");
  EXPECT_EQ(without_password("redis:/u:a/@c"), "redis:/***@c");
  EXPECT_EQ(without_password("a@b:c"), "***@b:c");
  EXPECT_EQ(without_password("rocksdb:/var/lib"), "rocksdb:/var/lib");
}

TEST(RedisDurability, IsTheWeakestSetting) {
  EXPECT_EQ(redis_durability({"yes", "always", "no", "0", "noeviction"}), "fsync");
  EXPECT_EQ(redis_durability({"yes", "always", "yes", "0", "noeviction"}), "os");
  EXPECT_EQ(redis_durability({"yes", "everysec", "no", "1000", "volatile-lru"}), "os");
  EXPECT_EQ(redis_durability({"yes", "always", "no", "1000", "allkeys-lru"}), "none");
  EXPECT_EQ(redis_durability({"yes", "always", "no", "0", "allkeys-lru"}), "fsync") << "no limit";
  EXPECT_EQ(redis_durability({"no", "always", "no", "0", "noeviction"}), "none");
  EXPECT_EQ(redis_durability({}), "none") << "a server that does not tell";
}

TEST(RedisWeakness, NamesTheSettingAndBothValues) {
  EXPECT_EQ(redis_weakness({"yes", "always", "no", "1000", "volatile-lru"}), "");
  EXPECT_EQ(redis_weakness({"no", "always", "no", "0", "noeviction"}),
            "the setting appendonly is no, but must be yes");
  EXPECT_EQ(redis_weakness({"yes", "everysec", "no", "0", "noeviction"}),
            "the setting appendfsync is everysec, but must be always");
  EXPECT_EQ(redis_weakness({"yes", "always", "yes", "0", "noeviction"}),
            "the setting no-appendfsync-on-rewrite is yes, but must be no");
  EXPECT_EQ(redis_weakness({"yes", "always", "no", "1000", "allkeys-lfu"}),
            "the setting maxmemory-policy is allkeys-lfu with maxmemory 1000, so Redis may evict "
            "rows; set it to noeviction");
  EXPECT_NE(redis_weakness({}).find("cannot read the setting appendonly (it must be yes)"),
            std::string::npos);
}

TEST(RedisNarrowness, NamesTheSettingAndBothValues) {
  RedisSettings settings;
  EXPECT_EQ(redis_narrowness(settings), "") << "the server hides its settings";
  settings.bulk_bytes = "536870912";
  settings.query_bytes = "1073741824";
  EXPECT_EQ(redis_narrowness(settings), "");
  settings.query_bytes = "2097152";
  EXPECT_EQ(redis_narrowness(settings),
            "the setting client-query-buffer-limit is 2097152, but must be at least 67108864: "
            "otherwise Redis always refuses large values");
  settings.bulk_bytes = "1048576";
  EXPECT_EQ(redis_narrowness(settings).find("the setting proto-max-bulk-len is 1048576"), 0U);
}

TEST(SentinelAddress, IsReadFromTheUrl) {
  const RedisAddress one = *parse_sentinel_address("//head1/training");
  EXPECT_EQ(one.sentinels, (std::vector<std::pair<std::string, std::uint16_t>>{{"head1", 26379}}));
  EXPECT_EQ(one.master, "training");
  EXPECT_EQ(one.prefix, "c10dd");
  const RedisAddress all = *parse_redis_url("redis+sentinel://u:p%40@a:1,[::1]:2,b/m/prefix");
  EXPECT_EQ(all.sentinels, (std::vector<std::pair<std::string, std::uint16_t>>{
                               {"a", 1}, {"::1", 2}, {"b", 26379}}));
  EXPECT_EQ(all.user + " " + all.password, "u p@");
  EXPECT_EQ(all.master + " " + all.prefix, "m prefix");
}

TEST(SentinelAddress, RefusesWhatItCannotRead) {
  for (const char* bad :
       {"//a:1", "//a:1/", "///m", "//a:x/m", "//a:1,/m", "//a:1/m m", "//a:1/m/p{}"}) {
    const auto refused = parse_sentinel_address(bad);
    ASSERT_TRUE(refused.has_error()) << bad;
    EXPECT_EQ(refused.error().code, Code::invalid_argument);
    EXPECT_NE(refused.error().detail.find("redis+sentinel://[[user]"), std::string::npos);
  }
  const Failure why = parse_sentinel_address("//:hunter2@a:x/m").error();
  EXPECT_EQ(why.detail.find("hunter2"), std::string::npos) << why.detail;
}

TEST(OpenEngine, SaysWhatItKnows) {
  for (const std::string url : {"", "etcd://h", "rocksdb", "/var/lib"}) {
    const auto engine = open_engine(url);
    ASSERT_FALSE(engine);
    EXPECT_EQ(engine.error().code, Code::invalid_argument);
    for (const std::string form : {"memory:", "rocksdb:/path", "@]host:port[/prefix]"}) {
      EXPECT_NE(engine.error().detail.find(form), std::string::npos) << engine.error().detail;
    }
  }
  EXPECT_EQ(open_engine("memory:x").error().code, Code::invalid_argument);
  EXPECT_EQ(open_engine("redis://127.0.0.1:1").error().code, Code::unavailable);
}

class RedisEngineTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!RedisServer::installed()) GTEST_SKIP() << "no redis-server in PATH";
    server_ = std::make_unique<RedisServer>();
  }
  std::unique_ptr<Engine> open() { return open_engine(server_->url()).value(); }

  std::unique_ptr<RedisServer> server_;
};

TEST_F(RedisEngineTest, FencesAnOwnerOnAnotherConnection) {
  const auto first = open();
  const auto second = open();
  const Epoch old = first->claim(1)->epoch;
  ASSERT_EQ(first->commit(std::vector<JobBatch>{{1, old, 0, 1, {{Row::Kind::put, "a", "1"}}}}),
            Outcomes{Outcome::durable});
  const Claim now = second->claim(1).value();
  EXPECT_EQ(now.revision, 1u);
  EXPECT_EQ(first->confirm(std::vector<Ownership>{{1, old}}), Outcomes{Outcome::fenced});
  EXPECT_EQ(first->commit(std::vector<JobBatch>{{1, old, 1, 2, {{Row::Kind::put, "a", "2"}}}}),
            Outcomes{Outcome::fenced});
  EXPECT_EQ(rows_of(*second, 1), (std::map<Bytes, Bytes>{{"a", "1"}}));
}

TEST_F(RedisEngineTest, ARightThatIsTakenAwayLeavesNoCommitHalfDone) {
  server_->command({"ACL", "SETUSER", "ada", "on", ">secret", "~*", "+@all"});
  const std::string url = "redis://ada:secret@" + server_->url().substr(8);
  const auto first = open_engine(url).value();
  const Epoch begun = first->claim(1)->epoch;
  ASSERT_EQ(first->commit(std::vector<JobBatch>{{1, begun, 0, 1, {{Row::Kind::put, "a", "1"}}}}),
            Outcomes{Outcome::durable});
  for (const std::string right : {"hdel", "hset"}) {
    const auto engine = open_engine(url, {.process = 1}).value();
    const Epoch epoch = engine->claim(1)->epoch;
    server_->command({"ACL", "SETUSER", "ada", "-" + right});
    const std::vector<JobBatch> batch = {
        {1, epoch, 1, 2, {{Row::Kind::put, "b", "1"}, {Row::Kind::erase, "a", ""}}}};
    const Engine::Outcomes outcomes = engine->commit_and_confirm(batch, {});
    EXPECT_EQ(outcomes.commits, Outcomes{Outcome::unknown});
    EXPECT_NE(outcomes.why.find("unexpected reply to a commit"), std::string::npos) << outcomes.why;
    server_->command({"ACL", "SETUSER", "ada", "+" + right});
    const auto again = open_engine(url).value();
    EXPECT_EQ(rows_of(*again, 1), (std::map<Bytes, Bytes>{{"a", "1"}})) << right;
  }
}

TEST_F(RedisEngineTest, TellsOwnersApartAfterEpochsHaveBegunAgain) {
  const auto old = open_engine(server_->url(), {.process = 1}).value();
  const Epoch epoch = old->claim(1)->epoch;
  server_->command({"FLUSHALL"});
  EXPECT_EQ(old->confirm(std::vector<Ownership>{{1, epoch}}), Outcomes{Outcome::absent});
  const auto other = open_engine(server_->url(), {.process = 2}).value();
  EXPECT_EQ(other->claim(1)->epoch, epoch);
  EXPECT_EQ(old->confirm(std::vector<Ownership>{{1, epoch}}), Outcomes{Outcome::fenced});
  EXPECT_EQ(old->commit(std::vector<JobBatch>{{1, epoch, 0, 1, {{Row::Kind::put, "a", "1"}}}}),
            Outcomes{Outcome::fenced});
  EXPECT_EQ(old->release({1, epoch}).error().code, Code::not_owner);
  EXPECT_EQ(other->commit(std::vector<JobBatch>{{1, epoch, 0, 1, {{Row::Kind::put, "a", "2"}}}}),
            Outcomes{Outcome::durable});
}

TEST_F(RedisEngineTest, NoticesWhatTheServerHasLost) {
  const auto engine = open();
  const auto put = [](Bytes key) { return Row{Row::Kind::put, std::move(key), "1"}; };
  const auto commit = [&](JobNumber job, Epoch epoch, Revision from) {
    return engine->commit(std::vector<JobBatch>{{job, epoch, from, from + 1, {put("k")}}}).front();
  };
  std::vector<Epoch> epochs(6);
  for (JobNumber job = 1; job < 6; ++job) {
    epochs[job] = engine->claim(job)->epoch;
    ASSERT_EQ(commit(job, epochs[job], 0), Outcome::durable);
  }
  const auto meta = [](int job) { return "c10dd:{" + std::to_string(job) + "}:meta"; };
  const auto rows = [](int job) { return "c10dd:{" + std::to_string(job) + "}:rows"; };
  server_->command({"DEL", meta(1), rows(1)});
  EXPECT_EQ(commit(1, epochs[1], 1), Outcome::absent);
  server_->command({"DEL", rows(2)});
  EXPECT_EQ(commit(2, epochs[2], 1), Outcome::fenced) << "a damage of this job only";
  const Result<void> loaded = engine->load(2, [](const Row&) {});
  EXPECT_EQ(loaded.error().code, Code::malformed);
  EXPECT_NE(loaded.error().detail.find("has 0 rows, but must have 1"), std::string::npos)
      << loaded.error().detail;
  server_->command({"HSET", meta(3), "rev", "0"});
  EXPECT_EQ(commit(3, epochs[3], 1), Outcome::lost);
  server_->command({"DEL", meta(4), rows(4)});
  EXPECT_EQ(engine->claim(4).error().code, Code::malformed);
  EXPECT_EQ(commit(5, epochs[5], 1), Outcome::durable) << "of the others nothing is lost";
}

TEST_F(RedisEngineTest, CommitsAfterTheServerForgotItsScripts) {
  const auto engine = open();
  const Epoch one = engine->claim(1)->epoch;
  const Epoch two = engine->claim(2)->epoch;
  server_->command({"SCRIPT", "FLUSH"});
  EXPECT_EQ(engine->commit(std::vector<JobBatch>{{1, one, 0, 1, {{Row::Kind::put, "a", "1"}}},
                                                 {2, two, 0, 1, {{Row::Kind::put, "a", "2"}}},
                                                 {1, one, 1, 2, {{Row::Kind::put, "b", "3"}}}}),
            Outcomes(3, Outcome::durable));
  EXPECT_EQ(rows_of(*engine, 1), (std::map<Bytes, Bytes>{{"a", "1"}, {"b", "3"}}));
  EXPECT_EQ(rows_of(*engine, 2), (std::map<Bytes, Bytes>{{"a", "2"}}));
}

TEST_F(RedisEngineTest, IsOfNoMoreUseAfterTheServerDied) {
  auto engine = open();
  const Epoch epoch = engine->claim(1)->epoch;
  const std::vector<JobBatch> first{{1, epoch, 0, 1, {{Row::Kind::put, "a", "1"}}}};
  ASSERT_EQ(engine->commit(first), Outcomes{Outcome::durable});
  server_->kill_and_restart();
  const std::vector<JobBatch> second{{1, epoch, 1, 2, {{Row::Kind::put, "b", "2"}}}};
  EXPECT_EQ(engine->commit(second), Outcomes{Outcome::unknown});
  EXPECT_EQ(engine->confirm(std::vector<Ownership>{{1, epoch}}), Outcomes{Outcome::unknown});
  EXPECT_EQ(engine->claim(1).error().code, Code::unavailable);

  engine = open();
  EXPECT_EQ(rows_of(*engine, 1), (std::map<Bytes, Bytes>{{"a", "1"}}));
  EXPECT_EQ(engine->commit(second), Outcomes{Outcome::durable}) << "the outcome is resolved";
  EXPECT_EQ(rows_of(*engine, 1), (std::map<Bytes, Bytes>{{"a", "1"}, {"b", "2"}}));
}

TEST_F(RedisEngineTest, ReportsTheDurabilityOfTheServer) {
  server_->command({"CONFIG", "SET", "appendfsync", "everysec"});
  EXPECT_EQ(open()->durability(), "os");
  server_->command({"CONFIG", "SET", "appendonly", "no"});
  EXPECT_EQ(open()->durability(), "none");
}

TEST_F(RedisEngineTest, LogsInWhereTheServerWantsAPassword) {
  const std::string at = "@127.0.0.1:" + std::to_string(server_->port());
  const std::string secret = "hunter2/@:%";
  const std::string encoded = "hunter2%2F%40%3a%25";
  EXPECT_EQ(open_engine("redis://:" + encoded + at).error().code, Code::permission_denied)
      << "there is none to give";
  server_->command({"ACL", "SETUSER", "ada", "on", ">" + secret, "~c10dd:*", "+@all"});
  server_->command({"CONFIG", "SET", "requirepass", secret});
  for (const std::string user : {"", "default", "ada"}) {
    const auto engine = open_engine("redis://" + user + ":" + encoded + at);
    ASSERT_TRUE(engine) << engine.error().detail;
    EXPECT_EQ((*engine)->durability(), "fsync");
    EXPECT_TRUE((*engine)->claim(1));
  }
  for (const std::string login : {":hunter3", "ada:hunter3", "bob:hunter2"}) {
    const auto engine = open_engine("redis://" + login + at);
    ASSERT_FALSE(engine) << login;
    EXPECT_EQ(engine.error().code, Code::permission_denied) << engine.error().detail;
    EXPECT_NE(engine.error().detail.find("WRONGPASS"), std::string::npos) << engine.error().detail;
    EXPECT_EQ(engine.error().detail.find("hunter"), std::string::npos) << engine.error().detail;
  }
  const auto engine = open_engine("redis://" + at.substr(1));
  EXPECT_EQ(engine.error().code, Code::permission_denied);
  EXPECT_NE(engine.error().detail.find(":PASSWORD@"), std::string::npos) << engine.error().detail;
}

TEST(RedisEngine, RepeatsNoPasswordThatAServerRepeats) {
  FakeRedis server(
      Replies{{"AUTH", "-ERR unknown command `AUTH`, with args beginning with: `hunter2`\r\n"}});
  const auto engine = open_engine("redis://:hunter2@" + server.url().substr(8));
  ASSERT_FALSE(engine);
  EXPECT_EQ(engine.error().code, Code::permission_denied);
  EXPECT_EQ(engine.error().detail.find("hunter2"), std::string::npos) << engine.error().detail;
}

TEST_F(RedisEngineTest, RefusesAReplica) {
  server_->command({"REPLICAOF", "127.0.0.1", "1"});
  const auto engine = open_engine(server_->url());
  ASSERT_FALSE(engine);
  EXPECT_EQ(engine.error().code, Code::unavailable);
  EXPECT_NE(engine.error().detail.find("replica"), std::string::npos) << engine.error().detail;
}

TEST_F(RedisEngineTest, RefusesAnotherFormat) {
  server_->command({"SET", "c10dd:format", "999"});
  const auto engine = open_engine(server_->url());
  ASSERT_FALSE(engine);
  EXPECT_EQ(engine.error().code, Code::version_unsupported);
  EXPECT_NE(engine.error().detail.find("is 999, this daemon knows format"), std::string::npos)
      << engine.error().detail;
}

TEST_F(RedisEngineTest, ChangesNothingWhenMemoryRunsOut) {
  auto engine = open();
  const Epoch epoch = engine->claim(1)->epoch;
  ASSERT_EQ(engine->commit(std::vector<JobBatch>{{1, epoch, 0, 1, {{Row::Kind::put, "a", "1"}}}}),
            Outcomes{Outcome::durable});
  server_->command({"CONFIG", "SET", "maxmemory", "1"});
  EXPECT_EQ(engine->commit(std::vector<JobBatch>{{1, epoch, 1, 2, {{Row::Kind::put, "b", "2"}}}}),
            Outcomes{Outcome::unknown});
  server_->command({"CONFIG", "SET", "maxmemory", "0"});
  engine = open();
  EXPECT_EQ(rows_of(*engine, 1), (std::map<Bytes, Bytes>{{"a", "1"}}));
  EXPECT_EQ(engine->claim(1)->revision, 1u);
}

TEST(RedisEngine, TrustsNoCommitReplyOfAnotherShape) {
  for (const std::string reply :
       {"+OK\r\n", ":1\r\n", "$-1\r\n", "$1\r\nx\r\n", "$2\r\ndd\r\n", "$0\r\n\r\n", "*0\r\n",
        "*1\r\n$1\r\nd\r\n", "-ERR no\r\n", "-NOSCRIPT no\r\n", "?\r\n", "*2147483647\r\n",
        "$1073741824\r\nd"}) {
    FakeRedis server(Replies{{"EVALSHA", reply}, {"EVAL", reply}});
    const auto engine = open_engine(server.url()).value();
    EXPECT_EQ(engine->commit(std::vector<JobBatch>{{1, 1, 0, 1, {}}}), Outcomes{Outcome::unknown})
        << reply;
    EXPECT_EQ(engine->jobs().error().code, Code::unavailable) << reply;
    EXPECT_EQ(engine->commit(std::vector<JobBatch>{{1, 1, 0, 1, {}}}), Outcomes{Outcome::unknown});
  }
}

TEST(RedisEngine, TrustsNoOtherReplyOfAnotherShape) {
  struct Case {
    std::string command;
    std::string reply;
  };
  for (const Case& bad : std::vector<Case>{{"HGET", "+OK\r\n"},
                                           {"HGET", ":1\r\n"},
                                           {"HMGET", "$1\r\n1\r\n"},
                                           {"HMGET", "*1\r\n:1\r\n"},
                                           {"EVAL", "*2\r\n$1\r\n1\r\n:0\r\n"},
                                           {"EVAL", "*3\r\n$1\r\n1\r\n$1\r\n0\r\n$1\r\n1\r\n"},
                                           {"EVAL", "*1\r\n$1\r\n1\r\n"},
                                           {"SMEMBERS", "*1\r\n$2\r\n-1\r\n"},
                                           {"HSCAN", "*2\r\n$1\r\n0\r\n*1\r\n$1\r\na\r\n"},
                                           {"HSCAN", "*2\r\n:0\r\n*0\r\n"},
                                           {"HLEN", "+0\r\n"}}) {
    FakeRedis server(Replies{{bad.command, bad.reply}});
    const auto engine = open_engine(server.url()).value();
    const bool good = engine->confirm(std::vector<Ownership>{{1, 1}}).at(0) != Outcome::unknown &&
                      engine->claim(1) && engine->jobs() && engine->load(1, [](const Row&) {});
    EXPECT_FALSE(good) << bad.command << " " << bad.reply;
    EXPECT_EQ(engine->renew({1, 1}).error().code, Code::unavailable) << bad.command;
  }
  FakeRedis server(Replies{});
  const auto engine = open_engine(server.url(), {.process = 1}).value();
  EXPECT_TRUE(engine->confirm(std::vector<Ownership>{{1, 1}}).at(0) == Outcome::durable &&
              engine->claim(1) && engine->jobs() && engine->load(1, [](const Row&) {}))
      << "the fake is good where it is not told otherwise";
}

bool is_printable(const Failure& why) {
  return !why.detail.empty() && printable(why.detail, why.detail.size()) == why.detail;
}

TEST(RedisEngine, ShowsNoEscapesOfAServer) {
  const std::string red = "\x1b[31mred\xC2\x9B";
  for (const std::string command :
       {"ROLE", "INFO", "SCRIPT", "SET", "GET", "EVAL", "SMEMBERS", "AUTH"}) {
    FakeRedis server(Replies{{command, "-ERR " + red + "\r\n"}});
    const bool logs_in = command == "AUTH";
    auto engine =
        open_engine("redis://" + std::string(logs_in ? ":p@" : "") + server.url().substr(8));
    const Failure why = !engine             ? engine.error()
                        : command == "EVAL" ? (*engine)->claim(1).error()
                                            : (*engine)->jobs().error();
    EXPECT_NE(why.detail.find("red"), std::string::npos) << command;
    EXPECT_TRUE(is_printable(why)) << command << why.detail;
  }
  FakeRedis other(Replies{{"GET", "$5\r\n\x1b[31m\r\n"}});
  EXPECT_TRUE(is_printable(open_engine(other.url()).error()));
  FakeRedis sentinel(Replies{{"SENTINEL", "*2\r\n$5\r\n\x1b[31m\r\n$4\r\n6379\r\n"}});
  const auto engine = open_engine("redis+sentinel://" + sentinel.url().substr(8) + "/m");
  EXPECT_NE(engine.error().detail.find("unexpected reply"), std::string::npos);
  EXPECT_TRUE(is_printable(engine.error()));
}

TEST(RedisEngine, RefusesAReplyAtItsLimitAlsoIfItsElementsAreSmall) {
  std::string reply = "*1000000\r\n";
  for (int n = 0; n < 1'000'000; ++n) reply += "$16\r\nabcdefghijklmnop\r\n";
  FakeRedis server(Replies{{"EVAL", reply}});
  const auto engine = open_engine(server.url()).value();
  const Failure why = engine->claim(1).error();
  EXPECT_NE(why.detail.find("bytes, limit 16777216"), std::string::npos) << why.detail;
}

TEST(RedisEngine, TrustsNoHeartbeatAndNoProbeOfAnotherShape) {
  const std::string end = "$1\r\n0\r\n$0\r\n\r\n$0\r\n\r\n";
  const std::vector<std::string> heartbeats = {
      "*6\r\n:7\r\n$1\r\n0\r\n*0\r\n" + end,
      "*6\r\n$1\r\ni\r\n$1\r\n0\r\n:7\r\n" + end,
      "*6\r\n$1\r\ni\r\n$1\r\n0\r\n*1\r\n$1\r\nx\r\n" + end,
      ":1\r\n",
      "*0\r\n",
      "-ERR \x1b[31m\r\n"};
  for (const std::string& reply : heartbeats) {
    FakeRedis server(Replies{{"EVAL", reply}});
    const auto fleet = open_redis_fleet(server.url(), std::chrono::seconds(2)).value();
    const auto read = fleet->read();
    ASSERT_FALSE(read) << reply;
    EXPECT_EQ(read.error().code, Code::unavailable);
    EXPECT_TRUE(is_printable(read.error()));
  }
  for (const std::string reply : {":1\r\n", "+OK\r\n", "*2\r\n$4\r\nHSET\r\n$5\r\n\x1b[31m\r\n"}) {
    FakeRedis server(Replies{{"EVAL", reply}});
    const auto state = watch_redis_server(server.url())->look();
    ASSERT_FALSE(state) << reply;
    EXPECT_TRUE(is_printable(state.error()));
  }
}

TEST(RedisEngine, FailsToLoadWhatDoesNotAddUp) {
  FakeRedis server(Replies{{"HLEN", ":1\r\n"}});
  const auto engine = open_engine(server.url()).value();
  EXPECT_EQ(engine->load(1, [](const Row&) {}).error().code, Code::unavailable);
}

}  // namespace
}  // namespace c10dd::store
