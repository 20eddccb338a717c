// SPDX-License-Identifier: Apache-2.0
// Finds the addresses at which other machines can reach this machine.
#pragma once

#include <string>

#include "client/internal/url.h"

namespace c10dd::run {

/// Returns the name of this machine, "localhost" if it is unknown.
std::string host_name();

/// Returns an address at which the other nodes of the job can reach this machine: the local address
/// from which packets to a daemon of the URL are sent. If the local address is unknown, or is a
/// loopback address, which other nodes cannot use, returns client::own_address() or, if that is
/// empty, the host name. If `alone` is true, the job has no other nodes: then returns even a
/// loopback address, and returns 127.0.0.1 if the local address is unknown.
std::string address_towards(const client::Url& url, bool alone);

/// Returns a TCP port that is free at this moment, and that the kernel gives to no connection: one
/// outside ip_local_port_range, if there is one. So it is still free when rank 0 listens on it.
/// Throws std::system_error.
std::string free_port();

}  // namespace c10dd::run
