// SPDX-License-Identifier: Apache-2.0
// Brings a connection to the shard of its job before its first frame is taken, so that its requests
// need not change threads. Whatever is wrong with the frame is for the session to say.
#include <boost/asio/post.hpp>

#include "daemon/net/sessions.h"
#include "daemon/server.h"
#include "protocol/limits.h"
#include "protocol/native_wire.h"

namespace c10dd::daemon {
namespace {

using asio::ip::tcp;

/// The shard that the first frame asks for; the first one when it asks for none.
Shard& shard_of(const native::Frame<native::RequestHeader>& frame, Server& server) {
  Shard& first = server.shards().first();
  if (frame.header.op != Hello::op.code) return first;
  const Result<Request> request = native::decode_request(frame.header.op, frame.body);
  if (!request) return first;
  const Hello& hello = std::get<Hello>(*request);
  if (!check_hello(hello, server)) return first;
  const Result<Shard*> shard = server.host().shard_of(hello.job, hello.run);
  return shard ? **shard : first;
}

void hand_over(Stream stream, Server& server, Shard& shard) {
  ErrorCode failed;
  const tcp protocol = stream.protocol();
  std::string head = stream.take_head();
  const auto ticket = std::make_shared<Ticket>(stream.take_ticket());
  const int descriptor = stream.release(failed);
  if (failed) return;
  asio::post(shard.loop(), [protocol, descriptor, head = std::move(head), ticket, &server, &shard] {
    tcp::socket socket(shard.loop(), protocol, descriptor);
    serve_native(Stream(std::move(socket), head, std::move(*ticket)), server, shard);
  });
}

}  // namespace

bool first_frame_is_missing(std::string_view head) {
  const auto frame =
      native::cut_request(head.substr(native::kMagic.size()), limits::kHelloFrameBytes);
  return frame && !frame->has_value();
}

void receive_native(Stream stream, Server& server) {
  Shard& first = server.shards().first();
  Shard* shard = &first;
  if (server.shards().size() > 1) {
    const auto frame = native::cut_request(
        std::string_view(stream.head()).substr(native::kMagic.size()), limits::kHelloFrameBytes);
    if (frame && frame->has_value()) shard = &shard_of(**frame, server);
  }
  if (shard != &first) return hand_over(std::move(stream), server, *shard);
  serve_native(std::move(stream), server, first);
}

}  // namespace c10dd::daemon
