// SPDX-License-Identifier: Apache-2.0
// Recounts what a daemon holds for clients that have ended, from its metrics.
#pragma once

#include <string>

namespace c10dd::torture {

/// Asks the daemons at these addresses (HOST:PORT,...) what they hold, until only the connection of
/// one native client is left, nothing waits and no bytes are held. `killed` clients may still have
/// arrivals at barriers, because their sessions outlive them by minutes. Returns what a daemon
/// still holds after 20 s; empty if nothing.
std::string held_in_the_end(const std::string& addresses, unsigned killed);

}  // namespace c10dd::torture
