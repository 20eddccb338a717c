// SPDX-License-Identifier: Apache-2.0
// The limit that the other servers are compared with: one thread, one epoll, no protocol. It
// counts bytes: every request_bytes that arrive are answered with `reply`.
#pragma once

#include <string>

#include "tests/bench/line.h"

namespace c10dd::bench {

/// Serves until the process ends; returns on an error of epoll itself.
void serve_echo(const Descriptor& listener, std::size_t request_bytes, const std::string& reply);

}  // namespace c10dd::bench
