// SPDX-License-Identifier: Apache-2.0
// Says on stderr, and to the program, what has become of the connection.
#pragma once

#include <functional>
#include <string>

#include "client/client.h"
#include "client/internal/connection.h"
#include "client/internal/launch_environment.h"

namespace c10dd::client {

/// `daemon`: host:port. C10DD_LOG=off in the environment keeps stderr silent.
Connection::Announce announcer(std::string daemon, const Environment& environment,
                               std::function<void(const ConnectionChange&)> on_connection);

}  // namespace c10dd::client
