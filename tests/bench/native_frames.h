// SPDX-License-Identifier: Apache-2.0
// What every scenario that speaks the native protocol needs: a new session, and replies that are
// checked to be successes.
#pragma once

#include <optional>
#include <string_view>

#include "protocol/native_wire.h"
#include "protocol/random.h"

namespace c10dd::bench {

/// The hello of a session that never was, in the job "bench" and a run of this process: a daemon
/// that was running erases the run when its sessions have ended and --run-grace is over.
Hello new_session();

/// The first reply of `in`, or nothing while it is incomplete. Throws std::runtime_error with the
/// text of a failure.
std::optional<native::Frame<native::ReplyHeader>> cut_success(std::string_view in);

}  // namespace c10dd::bench
