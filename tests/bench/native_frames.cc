// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/native_frames.h"

#include <stdexcept>
#include <string>

#include "protocol/limits.h"
#include "protocol/random.h"

namespace c10dd::bench {

Hello new_session() {
  static const std::string run = std::to_string(random_number());
  Hello hello;
  hello.session = {random_number(), random_number()};
  hello.job = "bench";
  hello.run = run;
  hello.host = "bench";
  return hello;
}

std::optional<native::Frame<native::ReplyHeader>> cut_success(std::string_view in) {
  const auto cut = native::cut_reply(in, limits::kFrameBytes);
  if (!cut) throw std::runtime_error("c10dd: " + cut.error().detail);
  if (!cut->has_value() || (*cut)->header.kind == native::ReplyHeader::Kind::reply) return *cut;
  const native::ReplyHeader& header = (*cut)->header;
  Reply reply = ReplyBody(Done{});
  const auto decoded = native::decode_reply(header.op, header.kind, (*cut)->body, reply);
  const Failure reason = !decoded ? decoded.error() : reply ? Failure() : reply.error();
  throw std::runtime_error("c10dd: " + std::string(name_of(reason.code)) + ": " + reason.detail);
}

}  // namespace c10dd::bench
