// SPDX-License-Identifier: Apache-2.0
// Logs why connections are refused, see log_caused(): the cause is the address. Thread-safe.
#pragma once

#include <string_view>

#include "protocol/error.h"

namespace c10dd::daemon {

/// Writes the line event=refused. `protocol` is empty if the connection has not chosen one.
void log_refused(std::string_view protocol, std::string_view peer, const Failure& reason);

}  // namespace c10dd::daemon
