// SPDX-License-Identifier: Apache-2.0
// Any bytes as the frame between two daemons, and as the reply to it: what decodes must encode to
// bytes that decode to the same again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "protocol/limits.h"
#include "protocol/native_wire.h"
#include "protocol/relay_frame.h"
#include "tests/fuzz/target.h"

namespace {

namespace native = c10dd::native;

void require(bool holds) {
  if (!holds) std::abort();
}

void take_frame(std::string_view in) {
  const auto cut = native::cut_request(in, c10dd::limits::kFrameBytes);
  if (!cut || !*cut || (*cut)->header.op != native::kRelayOp) return;
  const auto frame = native::decode_relay((*cut)->body);
  if (!frame) return;
  require(frame->job.size() <= c10dd::limits::kNameBytes);
  const c10dd::Bytes once = native::encode_relay(*frame);
  const auto again = native::cut_request(std::string_view(once).substr(native::kMagic.size()),
                                         c10dd::limits::kFrameBytes);
  require(again && *again);
  const auto same = native::decode_relay((*again)->body);
  require(same && native::encode_relay(*same) == once && same->key == frame->key);
}

void take_reply(std::string_view in) {
  const auto reply = native::cut_relay_reply(in);
  if (!reply || !*reply) return;
  require((*reply)->size > 0 && (*reply)->size <= in.size());
  const c10dd::Bytes once = native::encode_relay_reply((*reply)->taken);
  const auto again = native::cut_relay_reply(once);
  require(again && *again && (*again)->size == once.size());
  require(native::encode_relay_reply((*again)->taken) == once);
}

}  // namespace

C10DD_FUZZ(relay_frame) {
  std::string_view in(reinterpret_cast<const char*>(data), size);
  take_reply(in);
  if (in.starts_with(native::kMagic)) in.remove_prefix(native::kMagic.size());
  take_frame(in);
  return 0;
}
