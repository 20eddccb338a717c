// SPDX-License-Identifier: Apache-2.0
// What every scenario that speaks the native protocol needs: a new session, and replies that are
// checked to be successes.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "protocol/native_wire.h"
#include "protocol/random.h"

namespace c10dd::bench {

/// The hello of a session that never was, in the job "bench" and a run of this process: a daemon
/// that was running erases the run when its sessions have ended and --run-grace is over.
Hello new_session();

/// The reply to a hello.
struct HelloReply {
  std::size_t size = 0;
  std::uint32_t channel = 0;
  /// Empty if the session is open. Otherwise the job is being loaded, and the hello is to be said
  /// again after this time.
  std::optional<Duration> again;
};

/// The first reply of `in`, which is to a hello, or nothing while it is incomplete. Throws
/// std::runtime_error with the text of any other refusal.
std::optional<HelloReply> cut_hello_reply(std::string_view in);

/// The first reply of `in`, or nothing while it is incomplete. Throws std::runtime_error with the
/// text of a failure.
std::optional<native::Frame<native::ReplyHeader>> cut_success(std::string_view in);

}  // namespace c10dd::bench
