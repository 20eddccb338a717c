// SPDX-License-Identifier: Apache-2.0
// The frame of a door and its reply: whole for any split, and refused if no daemon sends it.
#include "protocol/door_frame.h"

#include <gtest/gtest.h>

#include "protocol/fields.h"
#include "protocol/limits.h"
#include "protocol/native_wire.h"

namespace c10dd::native {
namespace {

DoorFrame sample() {
  DoorFrame frame;
  frame.key = {0x0123456789ABCDEF, 0xFEDCBA9876543210};
  frame.peer = "10.0.0.7:40112";
  frame.job = "torch";
  frame.run = "r1";
  frame.legacy = tcpstore::LegacyClients::l1;
  return frame;
}

/// Cuts what follows the magic bytes.
auto cut(std::string_view in) {
  return cut_request(in.substr(kMagic.size()), limits::kHelloFrameBytes);
}

TEST(DoorFrame, BeginsLikeAConnectionOfAClientButIsNoOperation) {
  const Bytes bytes = encode_door(sample());
  EXPECT_TRUE(bytes.starts_with(kMagic));
  EXPECT_EQ(find_op(kDoorOp), nullptr);
  EXPECT_EQ(decode_request(kDoorOp, "").error().code, Code::unknown_op);
}

TEST(DoorFrame, ComesBackWhateverTheSplit) {
  const Bytes bytes = encode_door(sample()) + "bytes of the client";
  const std::size_t whole = encode_door(sample()).size();
  for (std::size_t n = kMagic.size(); n <= bytes.size(); ++n) {
    const auto frame = cut(std::string_view(bytes).substr(0, n));
    ASSERT_TRUE(frame);
    ASSERT_EQ(frame->has_value(), n >= whole) << n;
    if (n < whole) continue;
    EXPECT_EQ((*frame)->header.op, kDoorOp);
    EXPECT_EQ(kMagic.size() + (*frame)->size, whole);
    const auto back = decode_door((*frame)->body);
    ASSERT_TRUE(back);
    EXPECT_EQ(back->key, sample().key);
    EXPECT_EQ(back->peer, "10.0.0.7:40112");
    EXPECT_EQ(back->job, "torch");
    EXPECT_EQ(back->run, "r1");
    EXPECT_EQ(back->legacy, tcpstore::LegacyClients::l1);
  }
}

TEST(DoorFrame, CutShortOrFieldsThatNoDaemonSends) {
  const Bytes body = wire::encode(sample());
  for (std::size_t n = 0; n < body.size(); ++n) {
    const auto frame = decode_door(std::string_view(body).substr(0, n));
    // A frame of an older version may end after any field that has a default.
    EXPECT_TRUE(!frame || (!frame->job.empty() && !frame->peer.empty())) << n;
  }
  DoorFrame frame = sample();
  frame.job.clear();
  EXPECT_EQ(decode_door(wire::encode(frame)).error().detail, "frame of a door: it names no job");
  frame = sample();
  frame.peer.clear();
  EXPECT_EQ(decode_door(wire::encode(frame)).error().detail, "frame of a door: it names no client");
  frame = sample();
  frame.legacy = tcpstore::LegacyClients{3};
  EXPECT_EQ(decode_door(wire::encode(frame)).error().detail,
            "frame of a door: 3 is no setting for old clients, 0 to 2 are");
}

TEST(DoorFrame, IgnoresFieldsOfANewerVersion) {
  EXPECT_TRUE(decode_door(wire::encode(sample()) + "more"));
}

TEST(DoorFrame, TooLong) {
  DoorFrame frame = sample();
  frame.run = std::string(limits::kHelloFrameBytes, 'r');
  const auto cut_long = cut(encode_door(frame));
  ASSERT_FALSE(cut_long);
  EXPECT_EQ(cut_long.error().code, Code::too_large);
}

TEST(DoorFrame, AKeyIsItsBits) {
  EXPECT_FALSE(DoorKey{}.is_set());
  EXPECT_TRUE((DoorKey{0, 1}).is_set());
  EXPECT_TRUE((DoorKey{1, 0}).is_set());
  EXPECT_EQ((DoorKey{1, 2}), (DoorKey{1, 2}));
  EXPECT_FALSE((DoorKey{1, 2}) == (DoorKey{1, 3}));
  EXPECT_FALSE((DoorKey{1, 2}) == (DoorKey{2, 2}));
}

TEST(DoorReply, SaysYesOrWhyNotWhateverTheSplit) {
  Failure elsewhere = failure(Code::not_owner, "elsewhere");
  elsewhere.addresses = {"b:1"};
  for (const Result<void>& taken : {Result<void>(), Result<void>(elsewhere)}) {
    const Bytes whole = encode_door_reply(taken);
    const Bytes bytes = whole + "bytes for the client";
    for (std::size_t n = 0; n <= bytes.size(); ++n) {
      const auto reply = cut_door_reply(std::string_view(bytes).substr(0, n));
      ASSERT_TRUE(reply);
      ASSERT_EQ(reply->has_value(), n >= whole.size()) << n;
      if (n < whole.size()) continue;
      EXPECT_EQ((*reply)->size, whole.size());
      ASSERT_EQ((*reply)->taken.has_value(), taken.has_value());
      if (taken) continue;
      EXPECT_EQ((*reply)->taken.error().addresses, elsewhere.addresses);
    }
  }
}

TEST(DoorReply, OfAnotherRequest) {
  ReplyHeader header;
  header.op = Ping::op.code;
  const auto reply = cut_door_reply(encode_reply(header, ReplyBody(Done{})).head);
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Code::malformed);
  EXPECT_EQ(cut_door_reply(std::string(100, '\xFF')).error().code, Code::too_large);
}

}  // namespace
}  // namespace c10dd::native
