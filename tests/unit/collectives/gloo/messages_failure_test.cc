// SPDX-License-Identifier: Apache-2.0
// Messages of the backend gloo over peers that misbehave: they lie, are silent, are late, close in
// the middle of a message, or close while another message goes on.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/collectives/gloo/messages_world.h"

namespace c10dd {
namespace {

using namespace std::chrono_literals;
using collectives::Transport;
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

std::vector<float> ones(std::size_t count) { return std::vector<float>(count, 1.0F); }

bool has_text(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

struct Lie {
  const char* name;
  WireControl control;
  std::size_t elements = 0;  // bytes that follow
};

class LyingPeer : public testing::TestWithParam<Lie> {};

TEST_P(LyingPeer, EndsTheGroupAndWritesNothing) {
  MessagesWorld world;
  Message small(Collective::send, 1, ones(1));        // its offer has the number 0
  Message large(Collective::send, 1, ones(5000));     // 1, and it was granted
  Message receiving(Collective::recv, 1, {0, 0}, 5);  // from number 0 of the peer: granted
  Message guarded(Collective::recv, 1, {3, 3, 3, 3}, 6);
  guarded.operation.output.count = 1;
  Message other(Collective::recv, 2, {0});
  world.start({&small, &large, &receiving, &guarded, &other});
  world.say(1, {.type = kGrant, .id = 1});
  EXPECT_EQ(world.network.next(1, kPayloadKind).bytes.size(), 5000 * sizeof(float));
  world.say(1, {.tag = 5, .id = 0, .count = 2});
  while (world.heard(1).type != kGrant) continue;
  const Lie lie = GetParam();
  world.say(1, lie.control, FakeBytes(lie.elements, std::byte{0x55}));
  for (Message* const one : {&small, &large, &receiving, &guarded, &other}) {
    EXPECT_EQ(one->end.code(), Code::unavailable) << one->end.text();
    EXPECT_TRUE(has_text(one->end.text(), "an invalid control message")) << one->end.text();
  }
  EXPECT_EQ(guarded.values, std::vector<float>(4, 3.0F));
  EXPECT_EQ(receiving.values, std::vector<float>(2));
}

INSTANTIATE_TEST_SUITE_P(
    Lies, LyingPeer,
    testing::Values(Lie{"DoneForNoMessage", {.type = kDone, .id = 2}},
                    Lie{"RefusedForNoMessage", {.type = kRefused, .id = 2}},
                    Lie{"GrantForNoMessage", {.type = kGrant, .id = 2}},
                    Lie{"GrantAgain", {.type = kGrant, .id = 1}},
                    Lie{"SentForNoMessage", {.type = kSent, .id = 7}},
                    Lie{"UnknownType", {.type = 5, .id = 0}},
                    Lie{"UnknownElements", {.type = kRefused, .dtype = DType{10}, .id = 0}},
                    Lie{"MoreSeenThanWasSent", {.type = kDone, .id = 0, .seen = 5}},
                    Lie{"MoreBytesThanElements",
                        {.type = kOffer, .tag = 6, .id = 1, .count = 1, .eager = 13},
                        12},
                    Lie{"FewerBytesThanElements",
                        {.type = kOffer, .tag = 6, .id = 1, .count = 1, .eager = 1}},
                    Lie{"MoreBytesThanAnOfferHas",
                        {.type = kOffer, .tag = 6, .id = 1, .count = 1025, .eager = 4101},
                        4056}),
    [](const auto& lie) { return std::string(lie.param.name); });

TEST(MessagesFailure, APeerThatClosesInTheMiddleOfAMessageEndsAllThatWaits) {
  for (const bool receiver : {true, false}) {
    MessagesWorld world;
    Message whole(receiver ? Collective::recv : Collective::send, 1, ones(5000));
    Message other(Collective::recv, 2, {0});
    world.start({&whole, &other});
    if (receiver) {
      world.announce(1, 0, 5000);
      EXPECT_EQ(world.heard(1).type, kGrant);
    } else {
      world.say(1, {.type = kGrant, .id = 0});
      world.network.next(1, kPayloadKind);
    }
    world.network.end_connection(1);
    for (Message* const one : {&whole, &other}) {
      const Failure end = one->end.end();
      EXPECT_EQ(end.code, Code::unavailable);
      EXPECT_TRUE(has_text(end.detail, "lost the connection to rank 1")) << end.detail;
      ASSERT_EQ(end.missing.size(), 1u);
      EXPECT_EQ(end.missing[0].rank, 1u);
    }
    EXPECT_TRUE(has_text(whole.end.text(), receiver ? "recv 0 from rank 1" : "send 0 to rank 1"));
  }
}

TEST(MessagesFailure, APeerForWhomNothingWaitsMayLeave) {
  MessagesWorld world;
  Message done(Collective::send, 1, ones(1));
  Message waits(Collective::recv, 2, {0});
  Message any(Collective::recv, kAnyRank, {0}, 3);
  world.start({&done, &waits, &any});
  world.say(1, {.type = kDone, .id = 0});
  EXPECT_EQ(done.end.code(), Code::ok);
  world.network.end_connection(1);
  world.offer(2, 0, {5}, 0);
  EXPECT_EQ(waits.end.code(), Code::ok);
  EXPECT_FALSE(any.end.has_ended()) << "rank 2 may still send it";
  EXPECT_FALSE(world.transport->stopped());
  Message late(Collective::recv, 1, {0});
  world.start(late);
  EXPECT_EQ(late.end.code(), Code::unavailable);
  EXPECT_TRUE(has_text(late.end.text(), "rank 1")) << late.end.text();
  EXPECT_EQ(any.end.code(), Code::unavailable);
  Message never(Collective::send, 2, ones(1));
  world.start(never);
  EXPECT_EQ(never.end.text(), late.end.text()) << "the first reason stays";
}

TEST(MessagesFailure, ARecvOfAnySourceEndsWithItsLastPeer) {
  MessagesWorld world;
  Message any(Collective::recv, kAnyRank, {0});
  world.start(any);
  world.network.end_connection(2);
  world.offer(1, 0, {5});
  EXPECT_EQ(any.end.received().source, 1u);
  Message more(Collective::recv, kAnyRank, {0});
  world.start(more);
  world.network.end_connection(1);
  EXPECT_EQ(more.end.code(), Code::unavailable);
}

TEST(MessagesFailure, WhatIsStartedAfterThePeerHasLeftFails) {
  for (const Collective collective : {Collective::send, Collective::recv}) {
    MessagesWorld world;
    world.network.end_connection(1);
    Message first(collective, 1, ones(3));
    world.start(first);
    EXPECT_EQ(first.end.code(), Code::unavailable);
    EXPECT_TRUE(has_text(first.end.text(), "lost the connection to rank 1")) << first.end.text();
  }
}

TEST(MessagesFailure, ADeadlineEndsTheGroupAndWhatComesLateChangesNothing) {
  MessagesWorld world;
  Message late(Collective::recv, 1, {0, 0}, 5);
  Message granted(Collective::recv, 2, ones(5000));
  Message offered(Collective::send, 2, ones(2));
  world.start({&granted, &offered});
  world.announce(2, 0, 5000);
  EXPECT_EQ(world.heard(2).type, kOffer);
  EXPECT_EQ(world.heard(2).type, kGrant);
  late.within(20ms);
  world.start(late);
  EXPECT_EQ(late.end.code(), Code::timed_out);
  EXPECT_TRUE(has_text(late.end.text(), "recv 0 from rank 1, tag 5 timed out after 0.02 s"))
      << late.end.text();
  ASSERT_EQ(late.end.end().missing.size(), 1u);
  EXPECT_EQ(late.end.end().missing[0].rank, 1u);
  for (Message* const one : {&granted, &offered}) EXPECT_EQ(one->end.text(), late.end.text());
  world.offer(1, 0, {7, 7}, 5);
  world.pay(2, 0, ones(5000));
  world.say(2, {.type = kSent, .id = 0});
  world.say(2, {.type = kDone, .id = 0});
  world.close();
  EXPECT_EQ(late.values, std::vector<float>(2));
}

TEST(MessagesFailure, EachKindOfMessageNoticesItsOwnDeadline) {
  for (const int kind : {0, 1, 2}) {
    MessagesWorld world;
    Message late(kind == 0 ? Collective::send : Collective::recv, 2, ones(5000));
    Message other(Collective::recv, kAnyRank, {0}, 9);
    Message here(Collective::recv, 2, {0}, 8);
    world.start({&other, &here});
    if (kind == 2) world.announce(2, 0, 5000);  // and its elements never come
    world.offer(2, 1, {1}, 8);
    EXPECT_EQ(here.end.code(), Code::ok);  // so the offer before it is there, too
    late.within(20ms);
    world.start(late);
    EXPECT_EQ(late.end.code(), Code::timed_out) << kind;
    ASSERT_EQ(late.end.end().missing.size(), 1u);
    EXPECT_EQ(late.end.end().missing[0].rank, 2u);
    EXPECT_EQ(other.end.text(), late.end.text());
    const auto frame = [&] {
      world.close();
      world.transport.reset();
      return world.network.next(1, test::kExitKind);
    }();
    EXPECT_EQ(frame.bytes[0], std::byte{static_cast<std::uint8_t>(Code::timed_out)});
  }
}

TEST(MessagesFailure, AnAbortEndsEachMessageOnceAndThoseThatAreStartedLater) {
  MessagesWorld world;
  Message posted(Collective::recv, 1, {0});
  Message receiving(Collective::recv, 2, ones(5000));
  Message offered(Collective::send, 1, ones(2));
  Message sending(Collective::send, 2, ones(5000));
  world.start({&posted, &receiving, &offered, &sending});
  world.announce(2, 0, 5000);
  while (world.heard(2).type != kGrant) continue;
  world.say(2, {.type = kGrant, .id = 0});
  world.network.next(2, kPayloadKind);
  world.transport->stop(failure(Code::aborted, "the trainer gave up"),
                        failure(Code::aborted, "rank 0 gave up"), Transport::Closing::now);
  for (Message* const one : {&posted, &receiving, &offered, &sending}) {
    EXPECT_EQ(one->end.code(), Code::aborted);
    EXPECT_EQ(one->end.text(), "the trainer gave up");
  }
  Message later(Collective::send, 1, ones(1));
  world.start(later);
  EXPECT_EQ(later.end.text(), "the trainer gave up");
  for (const int peer : {1, 2}) {
    EXPECT_EQ(world.network.next(peer, test::kExitKind).bytes[0],
              std::byte{static_cast<std::uint8_t>(Code::aborted)});
  }
}

TEST(MessagesFailure, CloseLetsTheLastControlMessagesLeave) {
  MessagesWorld world;
  Message got(Collective::recv, 1, {0});
  world.start(got);
  {
    const std::lock_guard lock(world.network.mutex);
    world.network.deaf = {1};  // it reads only when rank 0 waits for that
  }
  world.offer(1, 0, {5});
  EXPECT_EQ(got.end.code(), Code::ok);
  EXPECT_EQ(world.network.frames(1, kControlKind), 0u);
  world.close();
  EXPECT_EQ(world.heard(1).type, kDone);
}

TEST(MessagesFailure, TwoGroupsOfAProcessDoNotTouchEachOther) {
  MessagesWorld first;
  MessagesWorld second;
  Message lost(Collective::recv, 1, {0});
  Message kept(Collective::recv, 1, {0});
  first.start(lost);
  second.start(kept);
  first.network.end_connection(1);
  EXPECT_EQ(lost.end.code(), Code::unavailable);
  first.close();
  EXPECT_FALSE(second.transport->stopped());
  second.offer(1, 0, {5});
  EXPECT_EQ(kept.end.received().count, 1u);
  Message late(Collective::recv, 2, {0});
  late.within(20ms);
  second.start(late);
  EXPECT_EQ(late.end.code(), Code::timed_out) << "the timer serves the second group, too";
}

}  // namespace
}  // namespace c10dd
