// SPDX-License-Identifier: Apache-2.0
// A client of the native protocol on a connection without a socket: sends frames, reads replies.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/net/native_session.h"
#include "protocol/native_wire.h"
#include "tests/unit/daemon/memory_stream.h"
#include "tests/unit/daemon/small_daemon.h"

namespace c10dd::daemon {

struct NativeReply {
  native::ReplyHeader header;
  Reply reply = ReplyBody(Done{});

  Code code() const { return reply ? Code::ok : reply.error().code; }
  std::string detail() const { return reply ? "" : reply.error().detail; }
  template <class T>
  T as() const {
    EXPECT_TRUE(reply && std::holds_alternative<T>(*reply)) << detail();
    return reply && std::holds_alternative<T>(*reply) ? std::get<T>(*reply) : T{};
  }
};

class NativePeer {
 public:
  explicit NativePeer(SmallDaemon& daemon) : daemon_(daemon) {}

  /// Starts a session of the daemon at the other end; `early`: the bytes read to recognise it.
  void connect(std::string_view early = {}) {
    auto stream = std::make_shared<MemoryStream>(daemon_.loop, wire);
    stream->put_head(std::string(native::kMagic).append(early));
    receive_native(std::move(stream), daemon_.context);
  }

  static Hello hello_of(std::uint64_t session, const std::string& job = "digits") {
    Hello hello;
    hello.session = {1, session};
    hello.job = job;
    return hello;
  }

  static Bytes frame(const Request& request, std::uint32_t channel = 0,
                     std::uint64_t sequence = 1) {
    Bytes bytes;
    native::RequestHeader header;
    header.channel = channel;
    header.sequence = sequence;
    native::encode_request(bytes, header, request);
    return bytes;
  }

  void send(const Request& request, std::uint32_t channel = 0, std::uint64_t sequence = 1) {
    wire->say(frame(request, channel, sequence));
  }

  /// Opens a session. Returns true if the hello was accepted.
  bool hello(std::uint64_t session, std::uint32_t channel = 0, const std::string& job = "digits") {
    send(hello_of(session, job), channel);
    return next().code() == Code::ok;
  }

  NativeReply ask(const Request& request, std::uint32_t channel = 0, std::uint64_t sequence = 1) {
    send(request, channel, sequence);
    return next();
  }

  /// Returns true if a reply is there already.
  bool has_reply() {
    unread_ += wire->take();
    const auto cut = native::cut_reply(unread_, std::size_t{1} << 30);
    return cut && cut->has_value();
  }

  /// Turns the daemon until the next reply is there.
  NativeReply next() {
    NativeReply reply;
    const bool came = daemon_.turn_until([&] { return has_reply(); });
    EXPECT_TRUE(came) << "no answer";
    if (!came) return reply;
    const auto cut = native::cut_reply(unread_, std::size_t{1} << 30);
    reply.header = (*cut)->header;
    EXPECT_TRUE(
        native::decode_reply(reply.header.op, reply.header.kind, (*cut)->body, reply.reply));
    unread_.erase(0, (*cut)->size);
    return reply;
  }

  /// Turns until the session has ended its side, then ends this side. Returns true if it did.
  bool ends() {
    const bool ended = daemon_.turn_until([&] { return wire->session_ended(); });
    has_reply();
    wire->hang_up();
    return ended && daemon_.turn_until([&] { return wire->closed(); });
  }

  const std::shared_ptr<MemoryWire> wire = std::make_shared<MemoryWire>();

 private:
  SmallDaemon& daemon_;
  std::string unread_;
};

}  // namespace c10dd::daemon
