// SPDX-License-Identifier: Apache-2.0
// A daemon on 127.0.0.1 that replies to each request of a native client as a test says.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "protocol/limits.h"
#include "protocol/native_wire.h"
#include "tests/unit/client/client_world.h"
#include "tests/unit/fake_server.h"

namespace c10dd::client {

/// The reply to a request, as bytes.
inline Bytes reply_to(const Sent& asked, const Reply& reply) {
  return World::bytes(asked.header.op, asked.header.sequence, reply);
}

/// Replies to hellos and heartbeats as a daemon does, unless the script takes them, and to all else
/// as `answer` says. `answer` runs on a thread of the server, and gets one request at a time.
class FakeDaemon {
 public:
  using Script = std::function<std::optional<test::FakeReply>(const Sent&)>;

  explicit FakeDaemon(Script script, int receive_buffer = 0)
      : script_(std::move(script)),
        server_(
            take, [this](const test::FakeRequest& asked) { return reply(asked); }, receive_buffer) {
  }

  const std::string& address() const { return server_.address(); }

 private:
  /// Takes a frame, whole.
  static std::optional<test::FakeRequest> take(std::string& in) {
    if (in.starts_with(native::kMagic)) in.erase(0, native::kMagic.size());
    const auto frame = native::cut_request(in, limits::kFrameBytes);
    if (!frame) return test::FakeRequest{"bad", ""};
    if (!frame->has_value()) return std::nullopt;
    test::FakeRequest asked{"frame", in.substr(0, (*frame)->size)};
    in.erase(0, (*frame)->size);
    return asked;
  }

  test::FakeReply reply(const test::FakeRequest& bytes) {
    const auto frame = native::cut_request(bytes.argument, limits::kFrameBytes);
    if (!frame || !frame->has_value()) {
      ADD_FAILURE() << "the client has sent a malformed frame";
      return {"", test::FakeReply::Then::close};
    }
    Result<Request> request = native::decode_request((*frame)->header.op, (*frame)->body);
    EXPECT_TRUE(request.has_value());
    const Sent asked{(*frame)->header, std::move(*request)};
    if (const auto replied = script_(asked)) return *replied;
    if (asked.header.op == Hello::op.code) return {reply_to(asked, World::welcome())};
    return {reply_to(asked, ReplyBody(Done{}))};
  }

  const Script script_;
  test::FakeServer server_;
};

/// The options of a core that connects to the daemon.
inline CoreOptions at(const FakeDaemon& daemon) { return {{daemon.address()}, Hello{}, 1}; }

}  // namespace c10dd::client
