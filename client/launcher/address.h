// SPDX-License-Identifier: Apache-2.0
// Finds the addresses at which other machines can reach this machine.
#pragma once

#include <string>

#include "client/internal/url.h"

namespace c10dd::run {

/// Returns the name of this machine, "localhost" if it is unknown.
std::string host_name();

/// Returns the local address of a connection to the daemon. If this is a loopback address, which
/// other nodes cannot use, and the job has other nodes (`alone` is false), returns the host name.
std::string address_towards(const client::Url& daemon, bool alone);

/// Returns a TCP port that is free at this moment. The port is not reserved. Throws
/// std::system_error.
std::string free_port();

}  // namespace c10dd::run
