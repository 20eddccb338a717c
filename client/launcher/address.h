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

}  // namespace c10dd::run
