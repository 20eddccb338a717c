// SPDX-License-Identifier: Apache-2.0
// Where other machines reach this one.
#pragma once

#include <string>

#include "client/internal/url.h"

namespace c10dd::run {

std::string host_name();

/// The address of this machine on its way to the daemon. With more than one node a loopback address
/// would mislead the others: then it is the host's name.
std::string address_towards(const client::Url& daemon, bool alone);

/// A TCP port that nobody has at this moment. Throws std::system_error.
std::string free_port();

}  // namespace c10dd::run
