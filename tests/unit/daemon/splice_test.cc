// SPDX-License-Identifier: Apache-2.0
// What one connection sends reaches the other, in order and without an unbounded buffer, and its
// end does, too.
#include "daemon/net/splice.h"

#include <gtest/gtest.h>

#include "daemon/shard/loop.h"
#include "tests/unit/daemon/memory_stream.h"

namespace c10dd::daemon {
namespace {

class SpliceTest : public testing::Test {
 protected:
  void begin(Bytes received = {}) {
    splice(std::make_shared<MemoryStream>(loop_, client_), std::move(received),
           std::make_shared<MemoryStream>(loop_, owner_), [this] { ++over_; });
    turn();
  }
  void turn() {
    loop_.restart();
    loop_.poll();
  }

  Loop loop_;
  std::shared_ptr<MemoryWire> client_ = std::make_shared<MemoryWire>();
  std::shared_ptr<MemoryWire> owner_ = std::make_shared<MemoryWire>();
  int over_ = 0;
};

TEST_F(SpliceTest, CopiesBothWaysAfterWhatWasReceived) {
  begin("first");
  client_->say(" second");
  owner_->say("reply");
  turn();
  EXPECT_EQ(owner_->take(), "first second");
  EXPECT_EQ(client_->take(), "reply");
  const std::string large(1'000'000, 'x');
  client_->say(large);
  owner_->say(large + "y");
  turn();
  EXPECT_EQ(owner_->take(), large);
  EXPECT_EQ(client_->take(), large + "y");
  EXPECT_EQ(over_, 0);
}

TEST_F(SpliceTest, DoesNotReadWhatTheOtherSideDoesNotTake) {
  owner_->give_room(10);
  begin();
  client_->say(std::string(3 * kSplicedBytes, 'x'));
  turn();
  EXPECT_EQ(owner_->take().size(), 10U);
  EXPECT_TRUE(client_->unread());
  owner_->say("the other direction goes on");
  turn();
  EXPECT_EQ(client_->take(), "the other direction goes on");
  owner_->give_room(10 * kSplicedBytes);
  turn();
  EXPECT_EQ(owner_->take().size(), 3 * kSplicedBytes - 10);
  EXPECT_FALSE(client_->unread());
}

TEST_F(SpliceTest, PassesTheEndOfOneDirectionOnAfterAllBytes) {
  owner_->give_room(0);
  begin();
  client_->say(std::string(1'000, 'x'));
  client_->hang_up();
  turn();
  EXPECT_FALSE(owner_->session_ended());
  owner_->give_room(1'000);
  turn();
  EXPECT_EQ(owner_->take().size(), 1'000U);
  EXPECT_TRUE(owner_->session_ended());
  EXPECT_FALSE(owner_->closed());
  owner_->say("last");
  owner_->hang_up();
  turn();
  EXPECT_EQ(client_->take(), "last");
  EXPECT_TRUE(client_->closed() && owner_->closed());
  EXPECT_EQ(over_, 1);
}

TEST_F(SpliceTest, AnErrorEndsBoth) {
  begin();
  owner_->break_off();
  turn();
  EXPECT_TRUE(client_->closed());
  EXPECT_EQ(over_, 1);
}

TEST_F(SpliceTest, AnErrorWhileBytesAreHeldEndsBoth) {
  owner_->give_room(0);
  begin("held");
  client_->break_off();
  turn();
  owner_->break_off();
  turn();
  EXPECT_TRUE(client_->closed() && owner_->closed());
  EXPECT_EQ(over_, 1);
}

TEST_F(SpliceTest, AClientThatDoesNotCloseAfterTheEndOfTheOwnerIsClosed) {
  begin();
  owner_->say("bye");
  owner_->hang_up();
  turn();
  EXPECT_EQ(client_->take(), "bye");
  EXPECT_TRUE(client_->session_ended());
  EXPECT_FALSE(client_->closed());
  loop_.restart();
  loop_.run();  // until nothing is left to wait for
  EXPECT_TRUE(client_->closed());
  EXPECT_EQ(over_, 1);
}

}  // namespace
}  // namespace c10dd::daemon
