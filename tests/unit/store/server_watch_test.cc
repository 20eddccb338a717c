// SPDX-License-Identifier: Apache-2.0
// The watch of a Redis server behind Sentinels: it looks at the master that they name now, although
// the former one lives on and still takes writes.
#include "store/server_watch.h"

#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "protocol/format.h"
#include "tests/unit/fake_server.h"
#include "tests/unit/store/redis_server.h"

namespace c10dd::store {
namespace {

using test::FakeReply;

/// A Sentinel that gives the same reply to each question until a test sets another.
class FakeSentinel {
 public:
  void say(std::string reply, FakeReply::Then then = FakeReply::Then::go_on) {
    const std::lock_guard lock(mutex_);
    reply_ = {std::move(reply), then};
  }
  void name(std::uint16_t port) {
    const std::string text = std::to_string(port);
    say(format("*2\r\n$9\r\n127.0.0.1\r\n${}\r\n{}\r\n", text.size(), text));
  }
  const std::string& address() const { return server_.address(); }
  int asked() const {
    const std::lock_guard lock(mutex_);
    return asked_;
  }

 private:
  /// Takes a whole question, which ends with the name of the master.
  static std::optional<test::FakeRequest> take(std::string& in) {
    if (!in.ends_with("\r\nmain\r\n")) return std::nullopt;
    in.clear();
    return test::FakeRequest{"question", ""};
  }
  FakeReply reply() {
    const std::lock_guard lock(mutex_);
    ++asked_;
    return reply_;
  }

  mutable std::mutex mutex_;
  FakeReply reply_{"$-1\r\n"};
  int asked_ = 0;
  test::FakeServer server_{take, [this](const test::FakeRequest&) { return reply(); }};
};

class ServerWatchTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!RedisServer::installed()) GTEST_SKIP() << "no redis-server in PATH";
    first_ = std::make_unique<RedisServer>();
    second_ = std::make_unique<RedisServer>();
    watch_ = watch_server("redis+sentinel://" + sentinels_[0].address() + "," +
                          sentinels_[1].address() + "/main");
    ASSERT_NE(watch_, nullptr);
  }
  /// Both Sentinels name this server.
  void name(const RedisServer& server) {
    for (FakeSentinel& sentinel : sentinels_) sentinel.name(server.port());
  }
  /// Looks, and returns the run id of the server, or the failure.
  std::string look() {
    const Result<ServerState> state = watch_->look();
    return state ? state->server : state.error().detail;
  }
  static std::string id_of(const RedisServer& server) {
    const std::string info = server.command({"INFO", "server"}).text;
    const std::size_t at = info.find("run_id:") + 7;
    return info.substr(at, info.find('\r', at) - at);
  }

  FakeSentinel sentinels_[2];
  std::unique_ptr<RedisServer> first_;
  std::unique_ptr<RedisServer> second_;
  std::unique_ptr<ServerWatch> watch_;
};

TEST_F(ServerWatchTest, FollowsTheSentinelsAlthoughTheFormerMasterLivesOn) {
  const std::string first = id_of(*first_);
  const std::string second = id_of(*second_);
  ASSERT_NE(first, second);
  for (int round = 0; round < 3; ++round) {
    name(*first_);
    EXPECT_EQ(look(), first);
    EXPECT_EQ(look(), first) << "again, on the same connection";
    name(*second_);
    EXPECT_EQ(look(), second);
  }
}

TEST_F(ServerWatchTest, SaysThatAFailoverLosesChanges) {
  name(*first_);
  const Result<ServerState> state = watch_->look();
  ASSERT_TRUE(state) << state.error().detail;
  EXPECT_NE(state->weakness.find("is managed by Sentinel"), std::string::npos) << state->weakness;
}

TEST_F(ServerWatchTest, AsksTheSecondSentinelIfTheFirstIsOfNoUse) {
  name(*first_);
  const std::string good = id_of(*first_);
  const std::vector<std::pair<std::string, FakeReply::Then>> useless = {
      {"", FakeReply::Then::close},                                     // closes
      {"*2\r\n$9\r\n127.0", FakeReply::Then::close},                    // closes in the middle
      {"+OK\r\n", FakeReply::Then::go_on},                              // another type
      {"*1\r\n$9\r\n127.0.0.1\r\n", FakeReply::Then::go_on},            // another size
      {"*2\r\n$1\r\n1\r\n$5\r\n99999\r\n", FakeReply::Then::go_on},     // no port
      {"*2\r\n$0\r\n\r\n$4\r\n6379\r\n", FakeReply::Then::go_on},       // no host
      {"*2\r\n$2\r\n\x1b[\r\n$4\r\n6379\r\n", FakeReply::Then::go_on},  // an escape
      {"-NOAUTH Authentication required.\r\n", FakeReply::Then::go_on},
      {"$-1\r\n", FakeReply::Then::go_on},  // knows no such master
      {"not a reply\r\n", FakeReply::Then::go_on}};
  for (const auto& [reply, then] : useless) {
    sentinels_[0].say(reply, then);
    const int before = sentinels_[1].asked();
    EXPECT_EQ(look(), good) << reply;
    EXPECT_EQ(sentinels_[1].asked(), before + 1);
  }
}

TEST_F(ServerWatchTest, IsOfUseAgainAfterSentinelsThatFailed) {
  for (FakeSentinel& sentinel : sentinels_) sentinel.say("", FakeReply::Then::close);
  for (int i = 0; i < 33; ++i) {
    const Result<ServerState> state = watch_->look();
    ASSERT_FALSE(state);
    EXPECT_EQ(state.error().code, Code::unavailable);
  }
  name(*second_);
  EXPECT_EQ(look(), id_of(*second_));
}

TEST_F(ServerWatchTest, SaysWhenNoSentinelKnowsTheMaster) {
  for (FakeSentinel& sentinel : sentinels_) sentinel.say("$-1\r\n");
  const Result<ServerState> state = watch_->look();
  ASSERT_FALSE(state);
  EXPECT_EQ(state.error().code, Code::invalid_argument);
  EXPECT_NE(state.error().detail.find("do not know a master \"main\""), std::string::npos);
}

TEST_F(ServerWatchTest, FailsWhileTheMasterIsDeadAndFindsTheOneThatStartsInItsPlace) {
  name(*first_);
  const std::string before = id_of(*first_);
  EXPECT_EQ(look(), before);
  first_->kill_and_restart();
  // The first look finds the end of the old connection.
  std::string now = look();
  if (now != id_of(*first_)) now = look();
  EXPECT_EQ(now, id_of(*first_));
  EXPECT_NE(now, before);
}

TEST_F(ServerWatchTest, AReplicaIsNoMasterWhateverTheSentinelsSay) {
  second_->command({"REPLICAOF", "127.0.0.1", "1"});
  name(*second_);
  const Result<ServerState> state = watch_->look();
  ASSERT_FALSE(state);
  EXPECT_EQ(state.error().code, Code::unavailable);
  EXPECT_NE(state.error().detail.find("replica"), std::string::npos) << state.error().detail;
}

}  // namespace
}  // namespace c10dd::store
