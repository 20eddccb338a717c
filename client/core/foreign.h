// SPDX-License-Identifier: Apache-2.0
// Recognises a server that is not a c10dd daemon by the first bytes that it sends. Some servers
// send nothing until they get a request that they know: the probes are such requests. Pure.
#pragma once

#include <string>
#include <string_view>

namespace c10dd::client {

/// The first probe, for a server that does not reply to the hello: HTTP and Redis reply at once.
inline constexpr std::string_view kTextProbe = "GET / HTTP/1.0\r\n\r\n";

/// Returns the second probe, sent if the first got no reply: the start of a TLS handshake.
std::string_view tls_probe();

/// Returns the protocol of a server, for people: "HTTP ("HTTP/1.0 404 Not Found")", "Redis (...)",
/// "TLS", ... Empty for an unknown protocol, and for the reply of a c10dd daemon to the first
/// probe.
std::string foreign_protocol(std::string_view first_bytes);

}  // namespace c10dd::client
