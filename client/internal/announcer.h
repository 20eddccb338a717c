// SPDX-License-Identifier: Apache-2.0
// Announces changes of the connection: on stderr, and to the program.
#pragma once

#include <functional>
#include <string>

#include "client/client.h"
#include "client/internal/connection.h"
#include "client/internal/launch_environment.h"

namespace c10dd::client {

/// Returns whether the SDK may write to stderr: unless the environment has C10DD_LOG=off.
bool says_on_stderr(const Environment& environment);

/// Writes a line to stderr, with one call of write().
void say_on_stderr(const std::string& text);

/// Returns the function that a Connection calls to announce its changes. The function
/// writes nothing to stderr if the environment has C10DD_LOG=off.
Connection::Announce announcer(const Environment& environment,
                               std::function<void(const ConnectionChange&)> on_connection);

}  // namespace c10dd::client
