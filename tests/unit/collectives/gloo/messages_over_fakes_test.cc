// SPDX-License-Identifier: Apache-2.0
// Messages of the backend gloo over peers that the test plays: each control message, the bytes that
// offers may carry, sizes and numbers that a peer gets wrong.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/unit/collectives/gloo/messages_world.h"

namespace c10dd {
namespace {

using test::FakeBytes;
using test::kControlKind;
using test::kDone;
using test::kGrant;
using test::kOffer;
using test::kPayloadKind;
using test::kRefused;
using test::kSent;
using test::Message;
using test::MessagesWorld;
using test::WireControl;

constexpr std::size_t kEagerFloats = 1024;  // of one offer: 4096 bytes

std::unique_ptr<Message> send_of(std::size_t count, Rank peer = 1, std::uint32_t tag = 0) {
  return std::make_unique<Message>(Collective::send, peer, std::vector<float>(count, 1.0F), tag);
}
std::unique_ptr<Message> recv_of(std::size_t count, Rank peer = 1, std::uint32_t tag = 0) {
  return std::make_unique<Message>(Collective::recv, peer, std::vector<float>(count), tag);
}

TEST(MessagesOverFakes, ASmallMessageTravelsWithItsOfferAndEndsWhenItIsTaken) {
  MessagesWorld world;
  Message first(Collective::send, 1, {1, 2, 3}, 7);
  Message second(Collective::send, 1, {}, 8);
  world.start({&first, &second});
  FakeBytes elements;
  const WireControl offer = world.heard(1, &elements);
  EXPECT_EQ(offer.type, kOffer);
  EXPECT_EQ(offer.dtype, DType::float32);
  EXPECT_EQ(offer.tag, 7u);
  EXPECT_EQ(offer.id, 0u);
  EXPECT_EQ(offer.count, 3u);
  EXPECT_EQ(offer.eager, 13u);
  EXPECT_EQ(elements, MessagesWorld::bytes_of_values({1, 2, 3}));
  const WireControl empty = world.heard(1, &elements);
  EXPECT_EQ(empty.id, 1u);
  EXPECT_EQ(empty.eager, 1u);  // its elements, of which it has none, came with it
  EXPECT_TRUE(elements.empty());
  world.say(1, {.type = kDone, .id = 1, .seen = 2});
  EXPECT_EQ(second.end.code(), Code::ok);
  EXPECT_TRUE(second.end.was_message());
  EXPECT_FALSE(first.end.has_ended());
  world.say(1, {.type = kDone, .id = 0, .seen = 2});
  EXPECT_EQ(first.end.code(), Code::ok);
}

TEST(MessagesOverFakes, AnOfferCarriesAtMost4096Bytes) {
  MessagesWorld world;
  const auto largest = send_of(kEagerFloats);
  const auto larger = send_of(kEagerFloats + 1);
  world.start({largest.get(), larger.get()});
  EXPECT_EQ(world.heard(1).eager, 4097u);
  FakeBytes elements;
  const WireControl offer = world.heard(1, &elements);
  EXPECT_EQ(offer.eager, 0u);
  EXPECT_EQ(offer.count, kEagerFloats + 1);
  EXPECT_TRUE(elements.empty());
  for (const std::uint64_t id : {0, 1}) world.say(1, {.type = kDone, .id = id});
  EXPECT_EQ(largest->end.code(), Code::ok);
  EXPECT_EQ(larger->end.code(), Code::ok);
}

/// Starts a send, and returns whether its elements came with its offer.
bool is_eager(MessagesWorld& world, Message& message) {
  world.start(message);
  return world.heard(static_cast<int>(message.operation.peer)).eager > 0;
}

TEST(MessagesOverFakes, TheBytesOfPendingOffersAreLimitedForEachPeerAndGivenBack) {
  MessagesWorld world;
  std::vector<std::unique_ptr<Message>> all;
  const auto sends = [&](std::size_t count, Rank peer = 1) {
    all.push_back(send_of(count, peer));
    return is_eager(world, *all.back());
  };
  for (int i = 0; i < 16; ++i) EXPECT_TRUE(sends(kEagerFloats)) << i;  // 64 KiB are pending
  EXPECT_FALSE(sends(1));                                              // number 16
  EXPECT_TRUE(sends(kEagerFloats, 2)) << "rank 2 has its own bytes";
  // A message that was granted gives back nothing, because it had taken nothing.
  world.say(1, {.type = kGrant, .id = 16});
  EXPECT_EQ(world.network.next(1, kPayloadKind).bytes.size(), sizeof(float));
  EXPECT_EQ(world.heard(1).type, kSent);
  world.say(1, {.type = kDone, .id = 16});
  EXPECT_EQ(all[16]->end.code(), Code::ok);
  EXPECT_FALSE(sends(1));
  world.say(1, {.type = kDone, .id = 0});
  EXPECT_EQ(all[0]->end.code(), Code::ok);
  EXPECT_TRUE(sends(kEagerFloats)) << "those of a message that was taken come back";
  EXPECT_FALSE(sends(1));
  world.say(1, {.type = kRefused, .id = 1, .count = 4});
  EXPECT_EQ(all[1]->end.code(), Code::size_mismatch);
  EXPECT_TRUE(sends(kEagerFloats - 1)) << "those of a message that was refused come back";
  EXPECT_TRUE(sends(1));
  EXPECT_FALSE(sends(1));
  world.transport->stop(failure(Code::aborted, "enough"), failure(Code::aborted, "enough"),
                        collectives::Transport::Closing::at_destruction);
  for (std::size_t i = 2; i < all.size(); ++i) {
    if (i == 16) continue;
    EXPECT_EQ(all[i]->end.text(), "enough") << i;
  }
}

TEST(MessagesOverFakes, AcknowledgedControlMessagesAreFreedAndTheOthersKept) {
  MessagesWorld world;
  const auto buffers = [&] {
    const std::lock_guard lock(world.network.mutex);
    return world.network.buffers;
  };
  const auto first = send_of(1);
  const auto second = send_of(1);
  const auto third = send_of(1);
  const int before = buffers();
  world.start({first.get(), second.get(), third.get()});
  EXPECT_EQ(buffers(), before + 1 + 3);  // the channel receives in one
  for (int i = 0; i < 3; ++i) EXPECT_EQ(world.heard(1).seen, 0u);
  world.say(1, {.type = kDone, .id = 2, .seen = 2});
  EXPECT_EQ(third->end.code(), Code::ok);
  EXPECT_EQ(buffers(), before + 1 + 1);
  world.say(1, {.type = kDone, .id = 0, .seen = 3});
  EXPECT_EQ(first->end.code(), Code::ok);
  EXPECT_EQ(buffers(), before + 1);
  const auto fourth = send_of(1);
  world.start(*fourth);
  EXPECT_EQ(world.heard(1).seen, 2u) << "it acknowledges the two that have come";
  for (const std::uint64_t id : {1, 3}) world.say(1, {.type = kDone, .id = id, .seen = 4});
  EXPECT_EQ(second->end.code(), Code::ok);
  EXPECT_EQ(fourth->end.code(), Code::ok);
}

TEST(MessagesOverFakes, ALargeMessageIsSentAfterItsGrantAndBeforeTheWordThatItWas) {
  MessagesWorld world;
  const auto one = send_of(5000, 1);
  const auto other = send_of(6000, 2);
  world.start({one.get(), other.get()});
  EXPECT_EQ(world.heard(1).eager, 0u);
  EXPECT_EQ(world.heard(2).eager, 0u);
  world.say(2, {.type = kGrant, .id = 0, .seen = 1});
  world.say(1, {.type = kGrant, .id = 0, .seen = 1});
  for (const int peer : {1, 2}) {
    ASSERT_TRUE(world.network.await([&] { return world.network.sent[peer].size() == 2; }));
    EXPECT_EQ(world.network.kinds(peer), (std::vector<int>{kPayloadKind, kControlKind})) << peer;
  }
  EXPECT_EQ(world.network.next(1, kPayloadKind).bytes.size(), 5000 * sizeof(float));
  EXPECT_EQ(world.network.next(2, kPayloadKind).bytes.size(), 6000 * sizeof(float));
  EXPECT_EQ(world.heard(1).type, kSent);
  EXPECT_FALSE(one->end.has_ended()) << "the peer has not said that it has them";
  world.say(1, {.type = kDone, .id = 0});
  EXPECT_EQ(one->end.code(), Code::ok);
  EXPECT_FALSE(other->end.has_ended());
  world.say(2, {.type = kDone, .id = 0});
  EXPECT_EQ(other->end.code(), Code::ok);
}

TEST(MessagesOverFakes, TwoPeersSendAtOnceWithTheSameNumbers) {
  MessagesWorld world;
  const auto from_one = recv_of(5000, 1);
  const auto from_two = recv_of(5000, 2);
  world.start({from_one.get(), from_two.get()});
  for (const int peer : {1, 2}) world.announce(peer, 0, 4000);
  for (const int peer : {1, 2}) EXPECT_EQ(world.heard(peer).type, kGrant);
  world.pay(2, 0, std::vector<float>(4000, 2.0F));
  world.say(2, {.type = kSent, .id = 0, .seen = 1});
  EXPECT_EQ(from_two->end.received().source, 2u);
  EXPECT_EQ(from_two->end.received().count, 4000u);
  EXPECT_EQ(from_two->values[3999], 2.0F);
  EXPECT_EQ(from_two->values[4000], 0.0F);
  EXPECT_EQ(world.heard(2).type, kDone);
  EXPECT_FALSE(from_one->end.has_ended());
  world.pay(1, 0, std::vector<float>(4000, 1.0F));
  world.say(1, {.type = kSent, .id = 0, .seen = 1});
  EXPECT_EQ(from_one->end.received().source, 1u);
  EXPECT_EQ(from_one->values[0], 1.0F);
  const WireControl done = world.heard(1);
  EXPECT_EQ(done.type, kDone);
  EXPECT_EQ(done.seen, 2u);
}

TEST(MessagesOverFakes, AMessageThatComesEarlyWaitsForItsRecv) {
  MessagesWorld world;
  const auto opens = recv_of(1, 1, 9);
  world.start(*opens);  // a rank listens to a peer from its first message on
  world.offer(1, 0, {1, 2}, 4);
  world.offer(1, 1, {3}, 4);
  world.offer(1, 2, {5}, 9);
  EXPECT_EQ(opens->end.received().tag, 9u);
  EXPECT_EQ(world.heard(1).id, 2u);
  const auto first = recv_of(2, kAnyRank, kAnyTag);
  const auto second = recv_of(2, 1, 4);
  world.start({first.get(), second.get()});
  EXPECT_EQ(first->end.received().count, 2u);
  EXPECT_EQ(first->end.received().tag, 4u);
  EXPECT_EQ(first->values, (std::vector<float>{1, 2}));
  EXPECT_EQ(second->end.received().count, 1u);
  EXPECT_EQ(second->values, (std::vector<float>{3, 0}));
  for (const std::uint64_t id : {0, 1}) {
    const WireControl done = world.heard(1);
    EXPECT_EQ(done.type, kDone);
    EXPECT_EQ(done.id, id);
  }
}

TEST(MessagesOverFakes, AMessageThatDoesNotFitIsRefusedAndTheNextOneIsTaken) {
  MessagesWorld world;
  const auto small = recv_of(3);
  world.start(*small);
  world.offer(1, 0, {1, 2, 3, 4}, 0);
  EXPECT_EQ(small->end.code(), Code::size_mismatch);
  EXPECT_EQ(small->values[0], 0.0F);
  const WireControl refused = world.heard(1);
  EXPECT_EQ(refused.type, kRefused);
  EXPECT_EQ(refused.id, 0u);
  EXPECT_EQ(refused.count, 3u);
  EXPECT_EQ(refused.dtype, DType::float32);
  const auto next = recv_of(3);
  world.start(*next);
  world.announce(1, 1, 4);
  EXPECT_EQ(next->end.code(), Code::size_mismatch);
  EXPECT_EQ(world.heard(1).type, kRefused);
  const auto fits = recv_of(3);
  world.start(*fits);
  world.offer(1, 2, {7, 8, 9});
  EXPECT_EQ(fits->end.received().count, 3u);
  EXPECT_EQ(fits->values[2], 9.0F);
}

}  // namespace
}  // namespace c10dd
