// SPDX-License-Identifier: Apache-2.0
// Who is at the other end when it is no c10dd: known by the first bytes that it says, also to the
// probes that make a silent one speak. Pure.
#pragma once

#include <string>
#include <string_view>

namespace c10dd::client {

/// Sent to a server that does not answer the hello: HTTP and Redis both answer it, at once.
inline constexpr std::string_view kTextProbe = "GET / HTTP/1.0\r\n\r\n";

/// The beginning of a TLS conversation; sent when the text was not answered, either.
std::string_view tls_probe();

/// "HTTP ("HTTP/1.0 404 Not Found")", "Redis (...)", "TLS", ...; empty for bytes of no protocol
/// that is known here, and of a c10dd daemon that has answered the text.
std::string foreign_protocol(std::string_view first_bytes);

}  // namespace c10dd::client
