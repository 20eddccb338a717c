// SPDX-License-Identifier: Apache-2.0
// c10dd --checkpoint: this program as a client of the daemon that runs.
#pragma once

#include <string>

#include "daemon/config/options.h"

namespace c10dd::daemon {

/// Asks the daemon at the address of these options to write its state to `path`, waits for its
/// word and prints it. The exit code: 0 written, 64 refused, 69 no daemon answers, 75 try again.
int request_checkpoint(const Options& options, const std::string& path);

}  // namespace c10dd::daemon
