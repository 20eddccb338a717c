// SPDX-License-Identifier: Apache-2.0
// The frame of a relay and its reply: whole for any split, and refused if no daemon sends it.
#include "protocol/relay_frame.h"

#include <gtest/gtest.h>

#include "protocol/fields.h"
#include "protocol/limits.h"
#include "protocol/native_wire.h"

namespace c10dd::native {
namespace {

RelayFrame sample() {
  RelayFrame frame;
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

TEST(RelayFrame, BeginsLikeAConnectionOfAClientButIsNoOperation) {
  const Bytes bytes = encode_relay(sample());
  EXPECT_TRUE(bytes.starts_with(kMagic));
  EXPECT_EQ(find_op(kRelayOp), nullptr);
  EXPECT_EQ(decode_request(kRelayOp, "").error().code, Code::unknown_op);
}

TEST(RelayFrame, ComesBackWhateverTheSplit) {
  const Bytes bytes = encode_relay(sample()) + "bytes of the client";
  const std::size_t whole = encode_relay(sample()).size();
  for (std::size_t n = kMagic.size(); n <= bytes.size(); ++n) {
    const auto frame = cut(std::string_view(bytes).substr(0, n));
    ASSERT_TRUE(frame);
    ASSERT_EQ(frame->has_value(), n >= whole) << n;
    if (n < whole) continue;
    EXPECT_EQ((*frame)->header.op, kRelayOp);
    EXPECT_EQ(kMagic.size() + (*frame)->size, whole);
    const auto back = decode_relay((*frame)->body);
    ASSERT_TRUE(back);
    EXPECT_EQ(back->key, sample().key);
    EXPECT_EQ(back->peer, "10.0.0.7:40112");
    EXPECT_EQ(back->job, "torch");
    EXPECT_EQ(back->run, "r1");
    EXPECT_EQ(back->legacy, tcpstore::LegacyClients::l1);
  }
}

TEST(RelayFrame, CutShortOrFieldsThatNoDaemonSends) {
  const Bytes body = wire::encode(sample());
  for (std::size_t n = 0; n < body.size(); ++n) {
    const auto frame = decode_relay(std::string_view(body).substr(0, n));
    // A frame of an older version may end after any field that has a default.
    EXPECT_TRUE(!frame || (!frame->job.empty() && !frame->peer.empty())) << n;
  }
  RelayFrame frame = sample();
  frame.job.clear();
  EXPECT_EQ(decode_relay(wire::encode(frame)).error().detail,
            "the relay frame does not name a job");
  frame = sample();
  frame.peer.clear();
  EXPECT_EQ(decode_relay(wire::encode(frame)).error().detail,
            "the relay frame does not name a client");
  frame = sample();
  frame.legacy = tcpstore::LegacyClients{3};
  EXPECT_EQ(decode_relay(wire::encode(frame)).error().detail,
            "the relay frame has the unknown setting 3 for old clients: use 0 to 2");
}

TEST(RelayFrame, IgnoresFieldsOfANewerVersion) {
  EXPECT_TRUE(decode_relay(wire::encode(sample()) + "more"));
}

TEST(RelayFrame, TooLong) {
  RelayFrame frame = sample();
  frame.run = std::string(limits::kHelloFrameBytes, 'r');
  const auto cut_long = cut(encode_relay(frame));
  ASSERT_FALSE(cut_long);
  EXPECT_EQ(cut_long.error().code, Code::too_large);
}

TEST(RelayFrame, AKeyIsItsBits) {
  EXPECT_FALSE(RelayKey{}.is_set());
  EXPECT_TRUE((RelayKey{0, 1}).is_set());
  EXPECT_TRUE((RelayKey{1, 0}).is_set());
  EXPECT_EQ((RelayKey{1, 2}), (RelayKey{1, 2}));
  EXPECT_FALSE((RelayKey{1, 2}) == (RelayKey{1, 3}));
  EXPECT_FALSE((RelayKey{1, 2}) == (RelayKey{2, 2}));
}

TEST(RelayReply, SaysYesOrWhyNotWhateverTheSplit) {
  Failure elsewhere = failure(Code::not_owner, "elsewhere");
  elsewhere.addresses = {"b:1"};
  for (const Result<void>& taken : {Result<void>(), Result<void>(elsewhere)}) {
    const Bytes whole = encode_relay_reply(taken);
    const Bytes bytes = whole + "bytes for the client";
    for (std::size_t n = 0; n <= bytes.size(); ++n) {
      const auto reply = cut_relay_reply(std::string_view(bytes).substr(0, n));
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

TEST(RelayReply, OfAnotherRequest) {
  ReplyHeader header;
  header.op = Ping::op.code;
  const auto reply = cut_relay_reply(encode_reply(header, ReplyBody(Done{})).head);
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Code::malformed);
  EXPECT_EQ(cut_relay_reply(std::string(100, '\xFF')).error().code, Code::too_large);
}

}  // namespace
}  // namespace c10dd::native
