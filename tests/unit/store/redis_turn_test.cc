// SPDX-License-Identifier: Apache-2.0
// The turn of a daemon that others overtake, on a real Redis; see JobBatch::turn.
#include <gtest/gtest.h>

#include <chrono>

#include "store/engines.h"
#include "tests/unit/store/redis_server.h"

namespace c10dd::store {
namespace {

/// Two daemons that change the directory. The far one always decides on an older directory.
class RedisTurnTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!RedisServer::installed()) GTEST_SKIP() << "no redis-server in PATH";
    server_ = std::make_unique<RedisServer>();
    near_ = open_engine(server_->url(), {.process = 1}).value();
    far_ = open_engine(server_->url(), {.process = 2}).value();
    revision_ = near_->claim(0)->revision;
    ASSERT_TRUE(far_->claim(0));
  }
  Outcome change(Engine& engine, Revision from, bool turn = false) {
    const JobBatch batch{0, 0, from, from + 1, {{Row::Kind::put, "a", "1"}}, {}, turn};
    const Outcome outcome = engine.commit(std::span(&batch, 1)).front();
    if (outcome == Outcome::durable) revision_ = from + 1;
    return outcome;
  }

  std::unique_ptr<RedisServer> server_;
  std::unique_ptr<Engine> near_, far_;
  Revision revision_ = 0;
};

TEST_F(RedisTurnTest, HoldsTheOthersUntilTheChangeIsMade) {
  const Revision old = revision_;
  EXPECT_EQ(change(*near_, revision_), Outcome::durable);
  EXPECT_EQ(change(*far_, old), Outcome::fenced);
  EXPECT_EQ(change(*near_, revision_), Outcome::durable) << "nobody has asked for a turn";
  EXPECT_EQ(change(*far_, old, true), Outcome::fenced);
  EXPECT_EQ(change(*near_, revision_), Outcome::fenced);
  EXPECT_EQ(change(*near_, revision_, true), Outcome::fenced) << "one daemon has the turn";
  const Result<std::optional<Changes>> changes = far_->changes(0, old);
  ASSERT_TRUE(changes && *changes) << "the turn is no gap";
  EXPECT_EQ((*changes)->revision, revision_);
  EXPECT_EQ(change(*far_, revision_), Outcome::durable);
  EXPECT_EQ(change(*near_, revision_), Outcome::durable) << "the turn has ended";
}

TEST_F(RedisTurnTest, EndsAfterASecond) {
  const Revision old = revision_;
  ASSERT_EQ(change(*near_, revision_), Outcome::durable);
  ASSERT_EQ(change(*far_, old, true), Outcome::fenced);
  const auto begin = std::chrono::steady_clock::now();
  while (change(*near_, revision_) == Outcome::fenced) {
    ASSERT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  }
  EXPECT_GT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(500));
}

TEST_F(RedisTurnTest, OfAClockThatWasSetBackOrOfAnotherShapeHoldsNobody) {
  for (const std::string turn : {"0000000000000002 99999999999999", "?", ""}) {
    server_->command({"HSET", "c10dd:{0}:changes", "turn", turn});
    EXPECT_EQ(change(*near_, revision_), Outcome::durable) << turn;
  }
}

}  // namespace
}  // namespace c10dd::store
