// SPDX-License-Identifier: Apache-2.0
#include "protocol/relay_frame.h"

#include "protocol/fields.h"
#include "protocol/limits.h"
#include "protocol/native_wire.h"

namespace c10dd::native {

Bytes encode_relay(const RelayFrame& frame) {
  const Bytes body = wire::encode(frame);
  Bytes out(kMagic);
  wire::Writer writer(out);
  writer.put(static_cast<std::uint32_t>(body.size()));
  writer.put(kRelayOp);
  out.append(RequestHeader::kSize - sizeof(std::uint32_t) - sizeof kRelayOp, '\0');
  return out.append(body);
}

Result<RelayFrame> decode_relay(std::string_view body) {
  Result<RelayFrame> frame = wire::decode<RelayFrame>(body);
  if (!frame) return frame;
  if (frame->legacy > tcpstore::LegacyClients::l1) {
    return failure(Code::malformed,
                   "the relay frame has the unknown setting {} for old clients: use 0 to 2",
                   static_cast<unsigned>(frame->legacy));
  }
  if (frame->job.empty() || frame->peer.empty()) {
    return failure(Code::malformed, "the relay frame does not name a {}",
                   frame->job.empty() ? "job" : "client");
  }
  return frame;
}

Bytes encode_relay_reply(const Result<void>& taken) {
  ReplyHeader header;
  header.op = kRelayOp;
  return encode_reply(header, taken ? Reply(ReplyBody(Done{})) : Reply(taken.error())).head;
}

Result<std::optional<RelayReply>> cut_relay_reply(std::string_view in) {
  const auto frame = cut_reply(in, limits::kHelloFrameBytes);
  if (!frame) return frame.error();
  if (!frame->has_value()) return std::nullopt;
  RelayReply reply{(*frame)->size, {}};
  const ReplyHeader& header = (*frame)->header;
  if (header.kind == ReplyHeader::Kind::reply && header.op == kRelayOp) return reply;
  Reply refusal;
  const Result<void> decoded = decode_reply(Hello::op.code, header.kind, (*frame)->body, refusal);
  if (!decoded) return decoded.error();
  if (refusal) {
    return failure(Code::malformed,
                   "expected a reply to the relay frame, but this reply has op code {}", header.op);
  }
  reply.taken = refusal.error();
  return reply;
}

}  // namespace c10dd::native
