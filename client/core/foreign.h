// SPDX-License-Identifier: Apache-2.0
// Recognises a server that is not a c10dd daemon by the first bytes that it sends. Some servers
// send nothing until they get a request that they understand. The probes are such requests. Pure.
#pragma once

#include <string>
#include <string_view>

namespace c10dd::client {

/// The first probe, sent if a server does not reply to the hello. HTTP and Redis servers reply to
/// this probe at once.
inline constexpr std::string_view kTextProbe = "GET / HTTP/1.0\r\n\r\n";

/// Returns the second probe, for servers that did not reply to the first probe: the start of a TLS
/// handshake.
std::string_view tls_probe();

/// Returns the name of the server's protocol for error texts, such as `TLS` or
/// `HTTP ("HTTP/1.0 404 Not Found")`. Empty if the protocol is unknown, or if a c10dd daemon has
/// replied to the first probe.
std::string foreign_protocol(std::string_view first_bytes);

}  // namespace c10dd::client
