// SPDX-License-Identifier: Apache-2.0
// Frames of the native protocol: bytes in, whole frames out, and back. Pure. Grammar: PROTOCOL.md.
// A connection starts with kMagic; then requests go up and replies come down, each a fixed header
// and a body. A frame is decoded as a whole before anything happens.
#pragma once

#include <optional>
#include <string_view>

#include "protocol/ops.h"

namespace c10dd::native {

inline constexpr std::string_view kMagic =
    "\xC1"
    "C10D";

struct RequestHeader {
  static constexpr std::size_t kSize = 28;

  std::uint32_t length = 0;  ///< of the body
  std::uint8_t op = 0;
  std::uint32_t channel = 0;
  std::uint64_t sequence = 0;
  std::uint64_t acked_below = 0;  ///< no request below will be repeated that stores its reply
};

struct ReplyHeader {
  static constexpr std::size_t kSize = 44;
  enum class Kind : std::uint8_t { reply = 0, failure = 1, event = 2 };

  std::uint32_t length = 0;
  std::uint8_t op = 0;
  Kind kind = Kind::reply;
  std::uint32_t channel = 0;
  std::uint64_t sequence = 0;
  Stamp stamp;
};

template <class Header>
struct Frame {
  Header header;
  std::string_view body;  ///< points into the input
  std::size_t size = 0;   ///< bytes to drop from the input
};

/// The first frame of `in`, or nothing while it is incomplete. A body longer than `limit` is
/// too_large on the header alone.
Result<std::optional<Frame<RequestHeader>>> cut_request(std::string_view in, std::size_t limit);
Result<std::optional<Frame<ReplyHeader>>> cut_reply(std::string_view in, std::size_t limit);

/// The bytes of the request that `in` begins with; 0 while its length is not there.
std::size_t request_size(std::string_view in);

/// Appends one frame to `out`; header.length and header.op are filled in.
void encode_request(Bytes& out, RequestHeader header, const Request& request);

/// unknown_op for an op code that is not in the table, malformed or too_large for a bad body.
Result<Request> decode_request(std::uint8_t op, std::string_view body);

/// A reply frame; header.length and header.kind are filled in. The tail, if any, is sent after the
/// head without being copied.
struct EncodedReply {
  Bytes head;
  SharedBytes tail;

  std::size_t size() const { return head.size() + tail.length; }
};
EncodedReply encode_reply(ReplyHeader header, const Reply& reply);

/// The answer in a reply frame to a request with this op code; fails on bytes that are none.
Result<void> decode_reply(std::uint8_t op, ReplyHeader::Kind kind, std::string_view body,
                          Reply& reply);

/// Tells a repeated request from a different one with the same sequence number.
std::uint64_t fingerprint(std::uint8_t op, std::string_view body);

}  // namespace c10dd::native
