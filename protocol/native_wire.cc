// SPDX-License-Identifier: Apache-2.0
// Encodes and decodes native frames; protocol/fields.h encodes and decodes their bodies.
#include "protocol/native_wire.h"

#include <array>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "protocol/fields.h"
#include "protocol/format.h"
#include "protocol/limits.h"

namespace c10dd::native {
namespace {

/// Returns the next field of a header, whose length was checked before.
template <class T>
T take(const char*& at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  at += sizeof value;
  return value;
}

void read_header(const char* at, RequestHeader& h) {
  h.length = take<std::uint32_t>(at);
  h.op = take<std::uint8_t>(at);
  at += 3;  // reserved
  h.channel = take<std::uint32_t>(at);
  h.sequence = take<std::uint64_t>(at);
  h.acked_below = take<std::uint64_t>(at);
}

void read_header(const char* at, ReplyHeader& h) {
  h.length = take<std::uint32_t>(at);
  h.op = take<std::uint8_t>(at);
  h.kind = take<ReplyHeader::Kind>(at);
  at += 2;  // reserved
  h.channel = take<std::uint32_t>(at);
  h.sequence = take<std::uint64_t>(at);
  h.stamp.incarnation = take<std::uint64_t>(at);
  h.stamp.epoch = take<std::uint64_t>(at);
  h.stamp.revision = take<std::uint64_t>(at);
}

template <class Header>
Result<std::optional<Frame<Header>>> cut(std::string_view in, std::size_t limit) {
  Result<std::optional<Frame<Header>>> cut(boost::system::in_place_value);
  if (in.size() < Header::kSize) return cut;
  Frame<Header>& frame = cut->emplace();
  read_header(in.data(), frame.header);
  const std::size_t length = frame.header.length;
  frame.size = Header::kSize + length;
  if (length > limit) {
    cut = failure(Code::too_large, "the body of the frame has {} bytes, limit {}", length, limit);
  } else if (in.size() < frame.size) {
    cut->reset();
  } else {
    frame.body = in.substr(Header::kSize, length);
  }
  return cut;
}

void put_header(wire::ByteStore& out, const RequestHeader& h) {
  wire::FieldEncoder w(out);
  w.put(h.length);
  w.put(h.op);
  w.put(std::uint8_t{0});
  w.put(std::uint16_t{0});
  w.put(h.channel);
  w.put(h.sequence);
  w.put(h.acked_below);
}

void put_header(wire::ByteStore& out, const ReplyHeader& h) {
  wire::FieldEncoder w(out);
  w.put(h.length);
  w.put(h.op);
  w.put(h.kind);
  w.put(std::uint16_t{0});
  w.put(h.channel);
  w.put(h.sequence);
  w.put(h.stamp);
}

/// Appends a frame. `shared` is the number of bytes that follow the frame's bytes in `out`.
template <class Header, class Body>
void append_frame(Bytes& out, Header header, const Body& body, std::size_t shared = 0) {
  const std::size_t size = wire::size_of_fields(body);
  const std::size_t at = out.size();
  out.resize(at + Header::kSize + size);
  wire::ByteStore store{out.data() + at};
  header.length = static_cast<std::uint32_t>(size + shared);
  put_header(store, header);
  wire::FieldEncoder(store).put_fields(body);
}

/// The fields of Exchanged before the bytes of the chunk, which are not copied.
struct ExchangedHead {
  std::uint64_t offset = 0;
  std::uint64_t total = 0;
  std::uint32_t chunk_length = 0;
};
BOOST_DESCRIBE_STRUCT(ExchangedHead, (), (offset, total, chunk_length))

template <class Op>
Result<Request> decode_as(std::string_view body, wire::Blobs blobs) {
  Result<Request> request(boost::system::in_place_value, std::in_place_type<Op>);
  const Result<void> decoded = wire::decode_into(std::get<Op>(*request), body, blobs);
  if (!decoded) {
    const Failure& reason = decoded.error();
    request = failure(reason.code, "{}: {}", Op::op.name, reason.detail);
  }
  return request;
}

using Decode = Result<Request> (*)(std::string_view body, wire::Blobs blobs);

constexpr auto decoders() {
  std::array<Decode, 256> table{};
  for_each_op([&]<class Op>(std::type_identity<Op>) { table[Op::op.code] = decode_as<Op>; });
  return table;
}
constexpr std::array<Decode, 256> kDecoders = decoders();  // by op code

Result<Request> decode(std::uint8_t op, std::string_view body, wire::Blobs blobs) {
  if (kDecoders[op] != nullptr) return kDecoders[op](body, blobs);
  return failure(Code::unknown_op, "unknown operation: code {}", op);
}

}  // namespace

Result<std::optional<Frame<RequestHeader>>> cut_request(std::string_view in, std::size_t limit) {
  return cut<RequestHeader>(in, limit);
}

Result<std::optional<Frame<ReplyHeader>>> cut_reply(std::string_view in, std::size_t limit) {
  return cut<ReplyHeader>(in, limit);
}

std::size_t request_size(std::string_view in) {
  if (in.size() < sizeof(RequestHeader::length)) return 0;
  wire::Reader reader(in);
  RequestHeader header;
  reader.get(header.length);
  return RequestHeader::kSize + header.length;
}

void encode_request(Bytes& out, RequestHeader header, const Request& request) {
  header.op = info_of(request).code;
  std::visit([&](const auto& r) { append_frame(out, header, r); }, request);
}

Result<Request> decode_request(std::uint8_t op, std::string_view body) {
  return decode(op, body, wire::Blobs::own);
}

Result<Request> decode_request_in_place(std::uint8_t op, std::string_view body) {
  return decode(op, body, wire::Blobs::borrow);
}

SharedBytes encode_reply(Bytes& out, ReplyHeader header, const Reply& reply) {
  header.kind = reply ? ReplyHeader::Kind::reply : ReplyHeader::Kind::failure;
  if (!reply) {
    append_frame(out, header, reply.error());
  } else if (const auto* exchanged = std::get_if<Exchanged>(&*reply)) {
    const SharedBytes& chunk = exchanged->chunk;
    const auto length = static_cast<std::uint32_t>(chunk.length);
    append_frame(out, header, ExchangedHead{exchanged->offset, exchanged->total, length}, length);
    return chunk;
  } else {
    std::visit([&](const auto& body) { append_frame(out, header, body); }, *reply);
  }
  return {};
}

EncodedReply encode_reply(ReplyHeader header, const Reply& reply) {
  EncodedReply out;
  out.tail = encode_reply(out.head, header, reply);
  return out;
}

Result<void> decode_reply(std::uint8_t op, ReplyHeader::Kind kind, std::string_view body,
                          Reply& reply) {
  const auto take = [&](auto decoded) -> Result<void> {
    if (!decoded) return decoded.error();
    reply = ReplyBody(std::move(*decoded));
    return {};
  };
  if (kind == ReplyHeader::Kind::failure) {
    Failure reason;
    wire::Reader reader(body);
    reader.get_fields(reason);
    if (!reader.ok() || reason.code == Code::ok) {
      return failure(Code::malformed, "the failure in a reply frame is malformed");
    }
    reply = std::move(reason);
    return {};
  }
  if (kind != ReplyHeader::Kind::reply) {
    return failure(Code::malformed, "the reply frame has the unknown kind {}",
                   static_cast<int>(kind));
  }
  Result<void> result = failure(Code::unknown_op, "reply to an unknown operation: code {}", op);
  for_each_op([&]<class Op>(std::type_identity<Op>) {
    if (Op::op.code == op) result = take(wire::decode<typename Op::Body>(body));
  });
  return result;
}

std::uint64_t fingerprint(std::uint8_t op, std::string_view body) {
  return XXH3_64bits_withSeed(body.data(), body.size(), op);
}

}  // namespace c10dd::native
