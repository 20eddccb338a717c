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

namespace {

using ReplyFrame = native::Frame<native::ReplyHeader>;

std::optional<ReplyFrame> cut_any(std::string_view in) {
  const auto cut = native::cut_reply(in, limits::kFrameBytes);
  if (!cut) throw std::runtime_error("c10dd: " + cut.error().detail);
  return *cut;
}

bool is_success(const ReplyFrame& frame) {
  return frame.header.kind == native::ReplyHeader::Kind::reply;
}

Failure failure_in(const ReplyFrame& frame) {
  Reply reply = ReplyBody(Done{});
  const auto decoded = native::decode_reply(frame.header.op, frame.header.kind, frame.body, reply);
  return !decoded ? decoded.error() : reply ? Failure() : reply.error();
}

[[noreturn]] void fail_with(const Failure& reason) {
  throw std::runtime_error("c10dd: " + std::string(name_of(reason.code)) + ": " + reason.detail);
}

}  // namespace

std::optional<HelloReply> cut_hello_reply(std::string_view in) {
  const auto frame = cut_any(in);
  if (!frame) return std::nullopt;
  HelloReply reply{frame->size, frame->header.channel, {}};
  if (is_success(*frame)) return reply;
  const Failure reason = failure_in(*frame);
  if (!reason.loading) fail_with(reason);
  reply.again = reason.retry_after;
  return reply;
}

std::optional<ReplyFrame> cut_success(std::string_view in) {
  auto frame = cut_any(in);
  if (frame && !is_success(*frame)) fail_with(failure_in(*frame));
  return frame;
}

}  // namespace c10dd::bench
