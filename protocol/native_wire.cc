// SPDX-License-Identifier: Apache-2.0
// Encodes and decodes native frames; protocol/fields.h encodes and decodes their bodies.
#include "protocol/native_wire.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "protocol/fields.h"
#include "protocol/format.h"
#include "protocol/limits.h"

namespace c10dd::native {
namespace {

constexpr std::size_t kSmallBody = 32;  // enough for most reply bodies; a stored value needs more

template <class Header>
Result<std::optional<Frame<Header>>> cut(std::string_view in, std::size_t limit,
                                         Header (*read)(wire::Reader&)) {
  if (in.size() < Header::kSize) return std::optional<Frame<Header>>();
  wire::Reader reader(in.substr(0, Header::kSize));
  const Header header = read(reader);
  if (header.length > limit) {
    return failure(Code::too_large, "frame too large: body of {} bytes, limit {}", header.length,
                   limit);
  }
  const std::size_t size = Header::kSize + header.length;
  if (in.size() < size) return std::optional<Frame<Header>>();
  return std::optional<Frame<Header>>({header, in.substr(Header::kSize, header.length), size});
}

RequestHeader read_request_header(wire::Reader& in) {
  RequestHeader h;
  std::uint8_t reserved_8 = 0;
  std::uint16_t reserved_16 = 0;
  in.get(h.length);
  in.get(h.op);
  in.get(reserved_8);
  in.get(reserved_16);
  in.get(h.channel);
  in.get(h.sequence);
  in.get(h.acked_below);
  return h;
}

ReplyHeader read_reply_header(wire::Reader& in) {
  ReplyHeader h;
  std::uint16_t reserved = 0;
  in.get(h.length);
  in.get(h.op);
  in.get(h.kind);
  in.get(reserved);
  in.get(h.channel);
  in.get(h.sequence);
  in.get(h.stamp);
  return h;
}

void write_header(Bytes& out, const RequestHeader& h) {
  wire::Writer w(out);
  w.put(h.length);
  w.put(h.op);
  w.put(std::uint8_t{0});
  w.put(std::uint16_t{0});
  w.put(h.channel);
  w.put(h.sequence);
  w.put(h.acked_below);
}

void write_header(Bytes& out, const ReplyHeader& h) {
  wire::Writer w(out);
  w.put(h.length);
  w.put(h.op);
  w.put(h.kind);
  w.put(std::uint16_t{0});
  w.put(h.channel);
  w.put(h.sequence);
  w.put(h.stamp);
}

void patch_length(Bytes& out, std::size_t frame_at, std::size_t body_length) {
  const auto length = static_cast<std::uint32_t>(body_length);
  std::memcpy(out.data() + frame_at, &length, sizeof length);
}

}  // namespace

Result<std::optional<Frame<RequestHeader>>> cut_request(std::string_view in, std::size_t limit) {
  return cut<RequestHeader>(in, limit, read_request_header);
}

Result<std::optional<Frame<ReplyHeader>>> cut_reply(std::string_view in, std::size_t limit) {
  return cut<ReplyHeader>(in, limit, read_reply_header);
}

std::size_t request_size(std::string_view in) {
  if (in.size() < sizeof(RequestHeader::length)) return 0;
  wire::Reader reader(in);
  RequestHeader header;
  reader.get(header.length);
  return RequestHeader::kSize + header.length;
}

void encode_request(Bytes& out, RequestHeader header, const Request& request) {
  const std::size_t at = out.size();
  header.op = info_of(request).code;
  write_header(out, header);
  std::visit([&](const auto& r) { wire::Writer(out).put_fields(r); }, request);
  patch_length(out, at, out.size() - at - RequestHeader::kSize);
}

Result<Request> decode_request(std::uint8_t op, std::string_view body) {
  Result<Request> result = Request(Ping{});
  if (find_op(op) == nullptr) {
    result = failure(Code::unknown_op, "unknown operation: code {}", op);
  }
  for_each_op([&]<class Op>(std::type_identity<Op>) {
    if (Op::op.code != op) return;
    const Result<void> decoded = wire::decode_into(result->emplace<Op>(), body);
    if (decoded) return;
    const Failure& reason = decoded.error();
    result = failure(reason.code, "{}: {}", Op::op.name, reason.detail);
  });
  return result;
}

EncodedReply encode_reply(ReplyHeader header, const Reply& reply) {
  EncodedReply out;
  const auto* value = reply ? std::get_if<Value>(&*reply) : nullptr;
  out.head.reserve(ReplyHeader::kSize + kSmallBody + (value ? value->value.size() : 0));
  header.kind = reply ? ReplyHeader::Kind::reply : ReplyHeader::Kind::failure;
  write_header(out.head, header);
  wire::Writer w(out.head);
  if (!reply) {
    w.put_fields(reply.error());
  } else if (const auto* exchanged = std::get_if<Exchanged>(&*reply)) {
    w.put(exchanged->offset);
    w.put(exchanged->total);
    // `head` gets only the chunk's length; `tail` shares the chunk's bytes, so no byte is copied.
    w.put(static_cast<std::uint32_t>(exchanged->chunk.length));
    out.tail = exchanged->chunk;
  } else {
    std::visit([&](const auto& body) { w.put_fields(body); }, *reply);
  }
  patch_length(out.head, 0, out.size() - ReplyHeader::kSize);
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
      return failure(Code::malformed, "a reply frame contains a malformed failure");
    }
    reply = std::move(reason);
    return {};
  }
  if (kind != ReplyHeader::Kind::reply) {
    return failure(Code::malformed, "frame of unknown kind {}", static_cast<int>(kind));
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
