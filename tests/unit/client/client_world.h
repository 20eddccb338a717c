// SPDX-License-Identifier: Apache-2.0
// A client core with a clock that tests set, and a scripted daemon at the other end.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "client/core/core.h"
#include "protocol/limits.h"
#include "protocol/native_wire.h"

namespace c10dd::client {

inline constexpr Duration kLimit = std::chrono::seconds(60);

struct Sent {
  native::RequestHeader header;
  Request request;
};

inline QueuePop pop(Duration timeout = std::chrono::seconds(5)) { return {"q", timeout}; }
inline Reply item(const std::string& value) { return ReplyBody(Popped{value}); }

/// Takes the output of a core. Returns its frames, without the magic of a new connection.
inline std::vector<Sent> frames_of(Core& core, TimePoint now) {
  std::vector<Sent> frames;
  std::string_view out = core.output();
  const std::size_t size = out.size();
  if (out.starts_with(native::kMagic)) out.remove_prefix(native::kMagic.size());
  while (!out.empty()) {
    const auto frame = native::cut_request(out, limits::kFrameBytes * 2);
    if (!frame || !*frame) {
      ADD_FAILURE() << "no whole frame in the output";
      break;
    }
    Result<Request> request = native::decode_request((*frame)->header.op, (*frame)->body);
    EXPECT_TRUE(request.has_value());
    frames.push_back({(*frame)->header, std::move(*request)});
    out.remove_prefix((*frame)->size);
  }
  core.written(size, now);
  return frames;
}

/// A core with a clock, and the daemon's end of its connection.
class World {
 public:
  explicit World(std::uint64_t seed = 1, std::vector<std::string> addresses = {"host:29500"})
      : core({std::move(addresses), Hello{}, seed}, TimePoint()) {}
  explicit World(CoreOptions options) : core(std::move(options), TimePoint()) {}

  /// Returns the frames written since the last call, without the magic of a new connection.
  std::vector<Sent> sent() {
    log.append(core.output());
    return frames_of(core, now);
  }

  static Bytes bytes(std::uint8_t op, std::uint64_t sequence, const Reply& reply,
                     Stamp stamp = {7, 1, 1}) {
    native::ReplyHeader header;
    header.op = op;
    header.channel = Core::kChannel;
    header.sequence = sequence;
    header.stamp = stamp;
    const native::EncodedReply encoded = native::encode_reply(header, reply);
    return encoded.head + Bytes(encoded.tail.view());
  }
  void reply(std::uint8_t op, std::uint64_t sequence, const Reply& reply, Stamp stamp = {7, 1, 1}) {
    core.received(bytes(op, sequence, reply, stamp), now);
  }

  static Reply welcome(std::uint32_t window = 1024, Duration takeover_grace = {},
                       std::vector<std::string> daemons = {}) {
    Welcome body;
    body.version = kProtocolVersion;
    body.heartbeat_interval = limits::kHeartbeatInterval;
    body.session_ttl = limits::kSessionTtl;
    body.window = window;
    body.takeover_grace = takeover_grace;
    body.daemons = std::move(daemons);
    return ReplyBody(body);
  }

  /// Waits until the core wants a connection, and makes it; the hello is not answered.
  void dial() {
    ASSERT_TRUE(core.dial_at().has_value());
    now = std::max(now, *core.dial_at());
    core.dialling();
    core.connected(now);
  }
  void open(std::uint32_t window = 1024) {
    dial();
    const std::vector<Sent> frames = sent();
    ASSERT_EQ(frames.size(), 1u);
    ASSERT_EQ(frames[0].header.op, Hello::op.code);
    reply(Hello::op.code, 0, welcome(window));
    ASSERT_TRUE(core.open());
  }

  /// The only frame that was written since the last call.
  Sent only_sent() {
    std::vector<Sent> frames = sent();
    EXPECT_EQ(frames.size(), 1u);
    return frames.empty() ? Sent{} : std::move(frames[0]);
  }

  /// Returns the failure of the only completed call; fails the test if there is none.
  Failure only_failure() {
    const std::vector<Completion> done = core.take_completions();
    EXPECT_EQ(done.size(), 1u);
    if (done.size() != 1 || done[0].reply) return failure(Code::ok, "no failure");
    return done[0].reply.error();
  }

  Core core;
  TimePoint now;
  Bytes log;
};

}  // namespace c10dd::client
