// SPDX-License-Identifier: Apache-2.0
// What a connection writes, in which order and in how many writes, and what happens when too much
// is queued.
#include "daemon/net/outbox.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "daemon/shard/loop.h"
#include "protocol/limits.h"
#include "protocol/native_wire.h"
#include "tests/unit/daemon/memory_stream.h"
#include "tests/unit/daemon/samples.h"

namespace c10dd::daemon {
namespace {

class OutboxTest : public testing::Test {
 protected:
  Outbox::Callbacks callbacks() {
    return {[this] { ++drained_; }, [this](const char* why) { died_.emplace_back(why); },
            [this](std::size_t bytes) { sizes_.push_back(bytes); }};
  }

  static native::EncodedReply frame(std::string head) { return {std::move(head), {}}; }
  native::EncodedReply large(std::size_t bytes) {
    if (!shared_) shared_ = std::make_shared<const Bytes>(16 * kMiB, 's');
    return {"", SharedBytes{shared_, 0, bytes}};
  }

  void add(const native::EncodedReply& frame) {
    outbox_->add([&](Bytes& out) {
      out += frame.head;
      return frame.tail;
    });
  }

  void turn() {
    loop_.restart();
    loop_.poll();
  }

  Loop loop_;
  std::shared_ptr<MemoryWire> wire_ = std::make_shared<MemoryWire>();
  std::shared_ptr<MemoryStream> stream_ = std::make_shared<MemoryStream>(loop_, wire_);
  unsigned drained_ = 0;
  std::vector<std::string> died_;
  std::vector<std::size_t> sizes_;
  std::shared_ptr<const Bytes> shared_;
  std::shared_ptr<Outbox> outbox_ = std::make_shared<Outbox>(stream_, callbacks());
};

TEST_F(OutboxTest, SmallFramesLeaveInOneBuffer) {
  for (const char* text : {"one ", "two ", "three"}) add(frame(text));
  EXPECT_EQ(wire_->written(), "") << "before it is flushed";
  EXPECT_FALSE(outbox_->empty());
  outbox_->flush();
  EXPECT_EQ(wire_->take(), "one two three");
  EXPECT_EQ(wire_->most_buffers(), 1u);
  EXPECT_TRUE(outbox_->empty());
  EXPECT_TRUE(sizes_.empty()) << "nobody is told of little";
}

TEST_F(OutboxTest, SharedBytesAreWrittenFromWhereTheyAre) {
  const auto shared = std::make_shared<const Bytes>("0123456789");
  add({"a", SharedBytes{shared, 2, 3}});
  add({"b", SharedBytes{shared, 0, 10}});
  add(frame("c"));
  EXPECT_EQ(shared.use_count(), 3);
  outbox_->flush();
  EXPECT_EQ(wire_->take(), "a234b0123456789c");
  EXPECT_EQ(wire_->most_buffers(), 5u);
  EXPECT_EQ(shared.use_count(), 1);
}

TEST_F(OutboxTest, OneWriteGathersABoundedNumberOfBuffers) {
  const auto shared = std::make_shared<const Bytes>("s");
  std::string all;
  for (int i = 0; i < 100; ++i) {
    add({std::to_string(i), SharedBytes{shared, 0, 1}});
    all += std::to_string(i) + "s";
  }
  outbox_->flush();
  EXPECT_EQ(wire_->take(), all);
  EXPECT_LE(wire_->most_buffers(), 32u);
}

TEST_F(OutboxTest, WhatDoesNotGoFollowsWhenThereIsRoom) {
  wire_->give_room(3);
  const auto shared = std::make_shared<const Bytes>("0123456789");
  add({"abcd", SharedBytes{shared, 0, 10}});
  add({"efgh", SharedBytes{shared, 0, 10}});
  outbox_->flush();
  std::string got = wire_->take();
  EXPECT_EQ(got, "abc");
  outbox_->flush();
  EXPECT_EQ(wire_->written(), "") << "it waits already";
  for (int i = 0; i < 25; ++i) {
    wire_->give_room(1);
    turn();
    got += wire_->take();
    EXPECT_EQ(got.size(), 4u + static_cast<std::size_t>(i));
  }
  EXPECT_EQ(got, "abcd0123456789efgh0123456789");
  EXPECT_TRUE(outbox_->empty());
}

TEST_F(OutboxTest, TellsItsSizeWhileItIsNotSmall) {
  wire_->give_room(0);
  add(large(limits::kSmallFrameBytes));
  EXPECT_FALSE(outbox_->over_small_limit());
  EXPECT_TRUE(sizes_.empty());
  add(frame("x"));
  EXPECT_TRUE(outbox_->over_small_limit());
  EXPECT_EQ(sizes_, std::vector<std::size_t>{limits::kSmallFrameBytes + 1});
  outbox_->flush();
  wire_->give_room(10);
  turn();
  EXPECT_EQ(sizes_.back(), limits::kSmallFrameBytes - 9) << "once more below the limit";
  EXPECT_EQ(drained_, 1u);
  const std::size_t told = sizes_.size();
  wire_->give_room(10);
  turn();
  EXPECT_EQ(sizes_.size(), told);
}

TEST_F(OutboxTest, TellsWhenItFallsBelowTheSoftLimit) {
  wire_->give_room(0);
  add(large(limits::kOutboxSoftBytes));
  EXPECT_FALSE(outbox_->over_soft_limit());
  add(frame("x"));
  EXPECT_TRUE(outbox_->over_soft_limit());
  outbox_->flush();
  EXPECT_EQ(drained_, 0u);
  wire_->give_room(1);
  turn();
  EXPECT_FALSE(outbox_->over_soft_limit());
  EXPECT_EQ(drained_, 1u);
}

TEST_F(OutboxTest, PeerThatReadsMayBeSentMoreThanTheHardLimit) {
  wire_->give_room(0);
  while (outbox_->empty() || sizes_.back() <= limits::kOutboxHardBytes) {
    add(large(16 * kMiB));
  }
  EXPECT_TRUE(died_.empty()) << "it has not been full for long";
  wire_->give_room(128 * kMiB);
  turn();
  EXPECT_TRUE(outbox_->empty());
  EXPECT_TRUE(died_.empty());
}

TEST_F(OutboxTest, DiesAboveTheMostThatMayWait) {
  wire_->give_room(0);
  for (std::size_t bytes = 0; bytes <= limits::kOutboxMostBytes; bytes += 16 * kMiB) {
    EXPECT_TRUE(died_.empty());
    add(large(16 * kMiB));
  }
  EXPECT_EQ(died_, std::vector<std::string>{"slow_consumer"});
  EXPECT_TRUE(outbox_->empty());
  EXPECT_EQ(sizes_.back(), 0u);
  add(frame("x"));
  EXPECT_TRUE(outbox_->empty()) << "half a frame may have left";
}

TEST_F(OutboxTest, DiesOnceWhenWritingFails) {
  stream_->close();
  add(frame("x"));
  outbox_->flush();
  add(frame("y"));
  outbox_->flush();
  EXPECT_EQ(died_, std::vector<std::string>{"peer"});
}

TEST_F(OutboxTest, AbandonedItCallsNobody) {
  wire_->give_room(0);
  add(large(kMiB));
  outbox_->flush();
  const std::size_t told = sizes_.size();
  outbox_->abandon();
  wire_->give_room(kMiB);
  turn();
  EXPECT_EQ(wire_->take(), "");
  EXPECT_TRUE(died_.empty());
  EXPECT_EQ(drained_, 0u);
  EXPECT_EQ(sizes_.size(), told);
}

TEST_F(OutboxTest, LivesAsLongAsItWaitsForRoom) {
  wire_->give_room(0);
  add(frame("last words"));
  outbox_->flush();
  outbox_.reset();
  wire_->give_room(100);
  turn();
  EXPECT_EQ(wire_->take(), "last words");
}

}  // namespace
}  // namespace c10dd::daemon
