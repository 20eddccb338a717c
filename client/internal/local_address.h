// SPDX-License-Identifier: Apache-2.0
// Finds the address at which the processes of a job can reach this machine.
#pragma once

#include <string>

namespace c10dd::client {

/// Returns the numeric address from which the kernel would send to `host`: loopback if `host` is
/// this machine, otherwise the address of an interface. Returns an empty string if `host` is
/// unknown or has no route. Sends nothing to `host`, but may block on the name look-up.
std::string local_address_towards(const std::string& host, const std::string& port);

}  // namespace c10dd::client
