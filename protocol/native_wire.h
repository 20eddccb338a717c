// SPDX-License-Identifier: Apache-2.0
// Cuts bytes into frames of the native protocol, and decodes and encodes frames. Does no I/O.
// Grammar: PROTOCOL.md.
// A connection starts with kMagic. After that, the client sends requests and the daemon sends
// replies, each with a fixed header and a body. A frame is decoded completely before any part of it
// has an effect.
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
  std::uint64_t acked_below = 0;  ///< the client repeats no write with a sequence below this value
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
  std::size_t size = 0;   ///< size of header and body in bytes
};

/// Returns the first frame of `in`, or nothing if the frame is still incomplete. Fails with
/// too_large if the header says that the body is longer than `limit`.
Result<std::optional<Frame<RequestHeader>>> cut_request(std::string_view in, std::size_t limit);
Result<std::optional<Frame<ReplyHeader>>> cut_reply(std::string_view in, std::size_t limit);

/// Returns the size in bytes of the request frame at the start of `in`. Returns 0 if `in` is too
/// short to contain the length field.
std::size_t request_size(std::string_view in);

/// Appends one request frame to `out`. Fills in header.length and header.op.
void encode_request(Bytes& out, RequestHeader header, const Request& request);

/// Decodes the body of a request frame. Fails with Code::unknown_op if `op` is not in the table of
/// operations. Fails with Code::malformed or Code::too_large if the body is not valid.
Result<Request> decode_request(std::uint8_t op, std::string_view body);
/// Does the same, but the Blobs of the request borrow their bytes from `body`. A copy of the
/// request owns its bytes.
Result<Request> decode_request_in_place(std::uint8_t op, std::string_view body);

/// An encoded reply frame: the bytes of `head`, then those of `tail`. Replies may share a `tail`.
struct EncodedReply {
  Bytes head;
  SharedBytes tail;

  std::size_t size() const { return head.size() + tail.length; }
};

/// Appends one reply frame to `out`, except the bytes that the reply shares with other replies.
/// Returns these bytes, which end the frame. Fills in header.length and header.kind.
SharedBytes encode_reply(Bytes& out, ReplyHeader header, const Reply& reply);
/// Encodes one reply frame as the other overload does.
EncodedReply encode_reply(ReplyHeader header, const Reply& reply);

/// Decodes the body of a reply into `reply`. `op` is the op code of the request. Fails with
/// Code::malformed, Code::too_large or Code::unknown_op if the frame is not a valid reply.
Result<void> decode_reply(std::uint8_t op, ReplyHeader::Kind kind, std::string_view body,
                          Reply& reply);

/// Returns a hash of a request. If two requests have the same sequence number, the hash tells
/// whether the second request repeats the first.
std::uint64_t fingerprint(std::uint8_t op, std::string_view body);

}  // namespace c10dd::native
