// SPDX-License-Identifier: Apache-2.0
// Implements c10dd --checkpoint: this process is a client of a running daemon.
#pragma once

#include <string>

#include "daemon/config/options.h"

namespace c10dd::daemon {

/// Asks the daemon at options.listen to write a copy of its state to `path`, waits for the reply
/// and prints it. Returns the exit code: 0 (written), 64 (refused), 69 (no daemon answers) or 75
/// (temporary failure: try again). Blocks without a timeout.
int request_checkpoint(const Options& options, const std::string& path);

}  // namespace c10dd::daemon
