// SPDX-License-Identifier: Apache-2.0
// Finds the address at which the processes of a job can reach this machine.
#pragma once

#include <string>

namespace c10dd::client {

/// Returns the numeric address from which the kernel would send to `host`: loopback if `host` is
/// this machine, otherwise the address of an interface. Returns an empty string if `host` is
/// unknown or has no route. Sends nothing to `host`, but may block on the name look-up.
std::string local_address_towards(const std::string& host, const std::string& port);

/// Returns the numeric address of this machine on its default route, IPv4 before IPv6. Without such
/// a route returns the first address of an interface that is up. Returns an IPv4 link-local address
/// only if there is no other, and an empty string if the machine has loopback and IPv6 link-local
/// addresses only. Sends nothing.
std::string own_address();

}  // namespace c10dd::client
