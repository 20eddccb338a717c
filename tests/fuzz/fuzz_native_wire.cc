// SPDX-License-Identifier: Apache-2.0
// Any bytes as a stream of request frames and of reply frames: what decodes must encode to bytes
// that decode to the same again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "protocol/fields.h"
#include "protocol/limits.h"
#include "protocol/native_wire.h"
#include "tests/fuzz/target.h"

namespace {

c10dd::Bytes bytes_of(const c10dd::Request& request) {
  c10dd::Bytes frame;
  c10dd::native::encode_request(frame, {}, request);
  return frame.substr(c10dd::native::RequestHeader::kSize);
}

c10dd::Bytes bytes_of(const c10dd::Reply& reply) {
  const c10dd::native::EncodedReply encoded = c10dd::native::encode_reply({}, reply);
  return (encoded.head + c10dd::Bytes(encoded.tail.view()))
      .substr(c10dd::native::ReplyHeader::kSize);
}

void take_requests(std::string_view in) {
  for (;;) {
    const auto frame = c10dd::native::cut_request(in, c10dd::limits::kFrameBytes);
    if (!frame || !*frame) return;
    const std::uint8_t op = (*frame)->header.op;
    if (const auto request = c10dd::native::decode_request(op, (*frame)->body)) {
      const c10dd::Bytes once = bytes_of(*request);
      const auto again = c10dd::native::decode_request(op, once);
      if (!again || bytes_of(*again) != once) std::abort();
    }
    in.remove_prefix((*frame)->size);
  }
}

void take_replies(std::string_view in) {
  for (;;) {
    const auto frame = c10dd::native::cut_reply(in, c10dd::limits::kFrameBytes);
    if (!frame || !*frame) return;
    const auto& header = (*frame)->header;
    c10dd::Reply reply = c10dd::ReplyBody(c10dd::Done{});
    if (c10dd::native::decode_reply(header.op, header.kind, (*frame)->body, reply)) {
      const c10dd::Bytes once = bytes_of(reply);
      if (!c10dd::native::decode_reply(header.op, header.kind, once, reply)) std::abort();
      if (bytes_of(reply) != once) std::abort();
    }
    in.remove_prefix((*frame)->size);
  }
}

}  // namespace

C10DD_FUZZ(native_wire) {
  std::string_view in(reinterpret_cast<const char*>(data), size);
  if (in.starts_with(c10dd::native::kMagic)) in.remove_prefix(c10dd::native::kMagic.size());
  take_requests(in);
  take_replies(in);
  return 0;
}
