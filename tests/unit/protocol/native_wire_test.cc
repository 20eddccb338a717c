// SPDX-License-Identifier: Apache-2.0
// The native codec over the whole table of operations: encoding and decoding gives the same values,
// and arbitrary bytes do no harm.
#include "protocol/native_wire.h"

#include <gtest/gtest.h>

#include "protocol/limits.h"
#include "tests/unit/protocol/wire_samples.h"

namespace c10dd::native {
namespace {

using samples::bytes_of;

Bytes frame_of(const Request& request, RequestHeader header = {0, 0, 7, 11, 5}) {
  Bytes out;
  encode_request(out, header, request);
  return out;
}

Bytes frame_of(const Reply& reply, std::uint8_t op) {
  EncodedReply encoded = encode_reply({0, op, {}, 7, 11, {1, 2, 3}}, reply);
  return encoded.head + Bytes(encoded.tail.view());
}

/// What a reader makes of one reply frame.
Reply read_reply(const Bytes& bytes) {
  const auto frame = cut_reply(bytes, limits::kFrameBytes);
  if (!frame || !*frame) return failure(Code::internal, "no frame");
  Reply reply = failure(Code::internal, "not decoded");
  const ReplyHeader& header = (*frame)->header;
  const Result<void> good = decode_reply(header.op, header.kind, (*frame)->body, reply);
  return good ? reply : Reply(good.error());
}

TEST(NativeWire, ReturnsEveryRequestAsItWas) {
  samples::for_each_request(1, [](const Request& request) {
    const Bytes bytes = frame_of(request);
    const auto frame = cut_request(bytes, limits::kFrameBytes);
    ASSERT_TRUE(frame && *frame);
    const RequestHeader& header = (*frame)->header;
    EXPECT_EQ(header.op, info_of(request).code);
    EXPECT_EQ(header.length + RequestHeader::kSize, bytes.size());
    EXPECT_EQ(header.channel, 7u);
    EXPECT_EQ(header.sequence, 11u);
    EXPECT_EQ(header.acked_below, 5u);
    EXPECT_EQ((*frame)->size, bytes.size());
    const Result<Request> decoded = decode_request(header.op, (*frame)->body);
    ASSERT_TRUE(decoded) << info_of(request).name;
    EXPECT_EQ(decoded->index(), request.index());
    EXPECT_EQ(bytes_of(*decoded), bytes_of(request)) << info_of(request).name;
  });
}

TEST(NativeWire, ReturnsEveryAnswerAsItWas) {
  samples::for_each_reply(2, [](std::uint8_t op, const Reply& reply) {
    const Bytes bytes = frame_of(reply, op);
    const auto frame = cut_reply(bytes, limits::kFrameBytes);
    ASSERT_TRUE(frame && *frame);
    EXPECT_EQ((*frame)->header.kind, ReplyHeader::Kind::reply);
    EXPECT_EQ((*frame)->header.stamp, (Stamp{1, 2, 3}));
    EXPECT_EQ((*frame)->size, bytes.size());
    const Reply decoded = read_reply(bytes);
    ASSERT_TRUE(decoded) << decoded.error().detail;
    EXPECT_EQ(decoded->index(), reply->index());
    EXPECT_EQ(bytes_of(decoded), bytes_of(reply)) << find_op(op)->name;
  });
}

TEST(NativeWire, ReturnsAFailureAsItWas) {
  const Reply reply = samples::sample<Failure>(3);
  const Reply decoded = read_reply(frame_of(reply, Barrier::op.code));
  ASSERT_FALSE(decoded);
  EXPECT_EQ(decoded.error().code, Code::timed_out);
  EXPECT_EQ(bytes_of(decoded), bytes_of(reply));
}

TEST(NativeWire, WritesTheBytesOfTheExampleInItsGrammar) {
  const auto hex = [](const Bytes& bytes) {
    std::string text;
    for (const unsigned char c : bytes) {
      text += "0123456789abcdef"[c >> 4];
      text += "0123456789abcdef"[c & 15];
    }
    return text;
  };
  Bytes request;
  encode_request(request, {0, 0, 1, 3, 2}, Set{"a", "hi"});
  EXPECT_EQ(hex(request),
            "140000001000000001000000030000000000000002000000000000000100000061020000006869"
            "000000000000000000");
  const Result<Request> shorter =
      decode_request(Set::op.code, std::string_view(request).substr(RequestHeader::kSize, 11));
  ASSERT_TRUE(shorter);  // from a client that knows no ttl
  EXPECT_EQ(bytes_of(*shorter), bytes_of(Set{"a", "hi"}));
  const EncodedReply reply =
      encode_reply({0, Set::op.code, {}, 1, 3, {9, 1, 7}}, ReplyBody(Written{7}));
  EXPECT_EQ(hex(reply.head),
            "080000001000000001000000030000000000000009000000000000000100000000000000"
            "07000000000000000700000000000000");
}

TEST(NativeWire, SharesTheChunkOfAnExchangeInsteadOfCopyingIt) {
  const auto owner = std::make_shared<const Bytes>("0123456789");
  const EncodedReply reply = encode_reply({}, ReplyBody(Exchanged{2, 10, {owner, 2, 5}}));
  EXPECT_EQ(reply.tail.owner, owner);
  EXPECT_EQ(reply.tail.view(), "23456");
  EXPECT_EQ(reply.size(), reply.head.size() + 5);
}

TEST(NativeWire, NeedsMoreForEveryPrefixOfAFrame) {
  samples::for_each_request(4, [](const Request& request) {
    const Bytes bytes = frame_of(request);
    for (std::size_t n = 0; n < bytes.size(); ++n) {
      const auto frame = cut_request(std::string_view(bytes).substr(0, n), limits::kFrameBytes);
      ASSERT_TRUE(frame && !*frame) << n;
    }
  });
  samples::for_each_reply(5, [](std::uint8_t op, const Reply& reply) {
    const Bytes bytes = frame_of(reply, op);
    for (std::size_t n = 0; n < bytes.size(); ++n) {
      const auto frame = cut_reply(std::string_view(bytes).substr(0, n), limits::kFrameBytes);
      ASSERT_TRUE(frame && !*frame) << n;
    }
  });
}

TEST(NativeWire, CutsFramesOneByOne) {
  Bytes bytes;
  encode_request(bytes, {0, 0, 1, 1, 0}, Set{"a", "b"});
  const std::size_t first = bytes.size();
  encode_request(bytes, {0, 0, 2, 2, 0}, Get{"a", Duration(5)});
  const auto frame = cut_request(bytes, limits::kFrameBytes);
  ASSERT_TRUE(frame && *frame);
  EXPECT_EQ((*frame)->size, first);
  const auto second = cut_request(std::string_view(bytes).substr(first), limits::kFrameBytes);
  ASSERT_TRUE(second && *second);
  EXPECT_EQ((*second)->header.channel, 2u);
}

TEST(NativeWire, RefusesATooLongFrameOnItsHeaderAlone) {
  const Bytes bytes = frame_of(Append{"key", Bytes(1000, 'x')});
  const std::string_view header = std::string_view(bytes).substr(0, RequestHeader::kSize);
  const auto frame = cut_request(header, 1000);
  ASSERT_FALSE(frame);
  EXPECT_EQ(frame.error().code, Code::too_large);
  EXPECT_EQ(frame.error().detail, "the body of the frame has 1011 bytes, limit 1000");
  EXPECT_TRUE(cut_request(header, 1011));
  EXPECT_FALSE(cut_reply(Bytes(ReplyHeader::kSize, '\xFF'), limits::kFrameBytes));
}

TEST(NativeWire, RefusesAnUnknownOperation) {
  const Result<Request> decoded = decode_request(200, "");
  ASSERT_FALSE(decoded);
  EXPECT_EQ(decoded.error().code, Code::unknown_op);
  EXPECT_EQ(decoded.error().detail, "unknown operation: code 200");
  Reply reply = ReplyBody(Done{});
  EXPECT_EQ(decode_reply(200, ReplyHeader::Kind::reply, "", reply).error().code, Code::unknown_op);
}

TEST(NativeWire, RefusesAReplyOfUnknownKind) {
  Reply reply = ReplyBody(Done{});
  for (const int kind : {2, 3, 255}) {
    const auto bad = decode_reply(Get::op.code, static_cast<ReplyHeader::Kind>(kind), "", reply);
    ASSERT_FALSE(bad) << kind;
    EXPECT_EQ(bad.error().code, Code::malformed);
  }
}

TEST(NativeWire, IgnoresAnExtraTail) {
  samples::for_each_request(6, [](const Request& request) {
    const Result<Request> decoded =
        decode_request(info_of(request).code, bytes_of(request) + "of the next version");
    ASSERT_TRUE(decoded);
    EXPECT_EQ(bytes_of(*decoded), bytes_of(request));
  });
}

TEST(NativeWire, TakesDefaultsForAMissingTail) {
  samples::for_each_request(7, [](const Request& request) {
    EXPECT_TRUE(decode_request(info_of(request).code, "")) << info_of(request).name;
  });
  const Bytes whole = wire::encode(Barrier{"g", 1, 2, 3, 4, Duration(5)});
  const auto older = wire::decode<Barrier>(std::string_view(whole).substr(0, whole.size() - 24));
  ASSERT_TRUE(older);
  EXPECT_EQ(older->world_size, 4u);
  EXPECT_EQ(older->timeout, Duration(0));
}

TEST(NativeWire, TakesDefaultsInsideAListToo) {
  Action older;
  older.kind = Action::Kind::append;
  older.key = "k";
  older.value = "v";
  older.delta = 5;
  Bytes fields = wire::encode(older);
  fields.resize(fields.size() - 8 - 1);  // without ttl and ephemeral
  Bytes body;
  wire::Writer(body).put(std::uint32_t{0});
  wire::Writer(body).put(std::uint32_t{2});
  wire::Writer(body).put(fields);
  wire::Writer(body).put(wire::encode(older) + "of the next version");
  const Result<Request> request = decode_request(Transact::op.code, body);
  ASSERT_TRUE(request) << request.error().detail;
  const auto& actions = std::get<Transact>(*request).actions;
  ASSERT_EQ(actions.size(), 2u);
  for (const Action& action : actions) EXPECT_EQ(wire::encode(action), wire::encode(older));
}

TEST(NativeWire, RefusesAFieldThatIsCutShort) {
  const Bytes whole = wire::encode(Barrier{"g", 1, 2, 3, 4, Duration(5)});
  const auto cut = wire::decode<Barrier>(std::string_view(whole).substr(0, whole.size() - 19));
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().code, Code::malformed);
  EXPECT_EQ(cut.error().detail, "malformed message: the field at byte 29 of 34 is cut short");
  const Result<Request> request = decode_request(Set::op.code, std::string_view("\x09\0\0\0k", 5));
  ASSERT_FALSE(request);
  EXPECT_EQ(request.error().code, Code::malformed);
  EXPECT_TRUE(request.error().detail.starts_with("set: ")) << request.error().detail;
}

TEST(NativeWire, RefusesAListThatCannotFit) {
  Bytes body;
  wire::Writer(body).put(std::uint32_t{1000});
  EXPECT_EQ(decode_request(Wait::op.code, body + "four").error().code, Code::malformed);
  Bytes empty_keys;
  wire::Writer(empty_keys).put(static_cast<std::uint32_t>(limits::kListElements + 1));
  empty_keys.resize(empty_keys.size() + 4 * (limits::kListElements + 1));
  const Result<Request> many = decode_request(Wait::op.code, empty_keys);
  ASSERT_FALSE(many);
  EXPECT_EQ(many.error().code, Code::too_large);
  EXPECT_EQ(many.error().detail, "wait: a list has 1048577 elements, limit 1048576");
}

TEST(NativeWire, ReadsAnyBitPatternOfABoolean) {
  const auto checked = wire::decode<Checked>("\x02");
  ASSERT_TRUE(checked);
  EXPECT_EQ(wire::encode(*checked), Bytes("\x01"));
}

TEST(NativeWire, TellsRequestsApartByTheirFingerprint) {
  const Bytes body = wire::encode(Set{"a", "b"});
  EXPECT_EQ(fingerprint(Set::op.code, body), fingerprint(Set::op.code, body));
  EXPECT_NE(fingerprint(Set::op.code, body), fingerprint(Add::op.code, body));
  EXPECT_NE(fingerprint(Set::op.code, body), fingerprint(Set::op.code, body + '\0'));
}

/// Decodes bytes as a peer would; what decodes must survive a second round unchanged.
void take_anything(const Bytes& bytes) {
  std::string_view rest = bytes;
  for (auto frame = cut_request(rest, 4096); frame && *frame; frame = cut_request(rest, 4096)) {
    const Result<Request> request = decode_request((*frame)->header.op, (*frame)->body);
    if (request) {
      const Bytes once = bytes_of(*request);
      const Result<Request> again = decode_request((*frame)->header.op, once);
      ASSERT_TRUE(again);
      ASSERT_EQ(bytes_of(*again), once);
    }
    rest.remove_prefix((*frame)->size);
  }
  const auto frame = cut_reply(bytes, 4096);
  if (!frame || !*frame) return;
  Reply reply = ReplyBody(Done{});
  const ReplyHeader& header = (*frame)->header;
  if (!decode_reply(header.op, header.kind, (*frame)->body, reply)) return;
  const Bytes once = bytes_of(reply);
  ASSERT_TRUE(decode_reply(header.op, header.kind, once, reply));
  ASSERT_EQ(bytes_of(reply), once);
}

TEST(NativeWire, SurvivesMutatedFrames) {
  constexpr int kMutations = 200'000;
  std::vector<Bytes> frames;
  samples::for_each_request(8,
                            [&](const Request& request) { frames.push_back(frame_of(request)); });
  samples::for_each_reply(
      9, [&](std::uint8_t op, const Reply& reply) { frames.push_back(frame_of(reply, op)); });
  frames.push_back(frame_of(Reply(samples::sample<Failure>(10)), Wait::op.code));
  std::mt19937_64 random(11);
  for (int i = 0; i < kMutations; ++i) {
    Bytes bytes = frames[random() % frames.size()];
    for (auto n = 1 + random() % 4; n > 0; --n) {
      const std::size_t at = random() % bytes.size();
      switch (random() % 5) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes[at] = static_cast<char>(bytes[at] ^ 1 << random() % 8);
          break;
        case 2:
          bytes.insert(at, 1 + random() % 8, static_cast<char>(random()));
          break;
        case 3:
          bytes.resize(std::max<std::size_t>(at, 1));
          break;
        default:
          bytes.replace(at, 4, "\xFF\xFF\xFF\x7F");
          break;
      }
    }
    take_anything(bytes);
    if (HasFatalFailure()) FAIL() << "mutation " << i;
  }
}

TEST(NativeWire, SurvivesNoise) {
  std::mt19937_64 random(12);
  for (int i = 0; i < 20'000; ++i) {
    Bytes bytes(random() % 200, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    take_anything(bytes);
    Reply reply = ReplyBody(Done{});
    for_each_op([&]<class Op>(std::type_identity<Op>) {
      (void)decode_request(Op::op.code, bytes);
      (void)decode_reply(Op::op.code, ReplyHeader::Kind::reply, bytes, reply);
    });
  }
}

}  // namespace
}  // namespace c10dd::native
