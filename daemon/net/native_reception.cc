// SPDX-License-Identifier: Apache-2.0
// Makes the WireProtocol of the native protocol. The first frame of a connection names a job. The
// connection moves to the shard of that job before the frame is handled, so that later requests
// need not change threads. The first frame of another daemon goes to the Relay. If the first frame
// cannot be served, the connection stays on the first shard, and its session replies with the
// reason.
#include "daemon/core/host/native_channels.h"
#include "daemon/net/native_session.h"
#include "daemon/net/relay.h"
#include "daemon/shard/shard.h"
#include "protocol/limits.h"
#include "protocol/native_wire.h"

namespace c10dd::daemon {
namespace {

Match recognise_native(std::string_view head) {
  if (head.starts_with(native::kMagic)) return Match::yes;
  return native::kMagic.starts_with(head) ? Match::maybe : Match::no;
}

std::string native_refusal(const Failure& reason) {
  native::ReplyHeader header;
  header.op = Hello::op.code;
  return native::encode_reply(header, reason).head;
}

/// Returns the frame that follows the magic bytes. Returns nothing if the frame is not complete,
/// and a failure if the frame is malformed.
auto first_frame(std::string_view head) {
  return native::cut_request(head.substr(native::kMagic.size()), limits::kHelloFrameBytes);
}

/// Returns true if more bytes are needed to know which job the connection is for.
bool first_frame_is_missing(std::string_view head) {
  const auto frame = first_frame(head);
  return frame && !frame->has_value();
}

/// If the first frame is a hello that can be served, returns the shard of the job that the hello
/// names; otherwise returns the first shard.
Shard& shard_of(const Stream& stream, const SessionContext& context) {
  const auto frame = first_frame(stream.head());
  if (!frame || !frame->has_value()) return context.first;
  const std::uint8_t op = (*frame)->header.op;
  if (op != Hello::op.code) return context.first;
  const Result<Request> request = native::decode_request(op, (*frame)->body);
  if (!request) return context.first;
  const Hello& hello = std::get<Hello>(*request);
  if (context.draining || !core::check_hello(hello)) return context.first;
  core::Caller caller;
  if (context.caller_of) {  // before the look for the shard, which gives a new job its number
    Result<core::Caller> known = context.caller_of(hello.credential, hello.job, stream);
    if (!known) return context.first;
    caller = std::move(*known);
  }
  const Result<Shard*> shard = context.shard_of(
      hello.job, hello.run, {{}, !caller.observes(), caller.observes(), caller.principal});
  return shard ? **shard : context.first;
}

}  // namespace

WireProtocol native_protocol(const SessionContext& context) {
  WireProtocol entry;
  entry.protocol = Protocol::native;
  entry.recognise = recognise_native;
  entry.wants_more = [&context](std::string_view head) {
    return (context.shard_of || context.relay) && first_frame_is_missing(head);
  };
  entry.serve = [&context](std::shared_ptr<Stream> stream) {
    receive_native(std::move(stream), context);
  };
  entry.refusal = native_refusal;
  entry.refuses_unknown = true;
  return entry;
}

void receive_native(std::shared_ptr<Stream> stream, const SessionContext& context) {
  if (context.relay && Relay::is_asked_for(stream->head())) return context.relay->take(stream);
  Shard& shard = context.shard_of ? shard_of(*stream, context) : context.first;
  if (&shard == &context.first) return serve_native(std::move(stream), context, shard);
  stream->move_to(shard.loop(), [&context, &shard](std::shared_ptr<Stream> moved) {
    serve_native(std::move(moved), context, shard);
  });
}

}  // namespace c10dd::daemon
