// SPDX-License-Identifier: Apache-2.0
// Splits and writes addresses: host:port, or [host]:port if the host is an IPv6 address.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "protocol/error.h"

namespace c10dd {

/// The parts of an address, as views of the text that was split.
struct AddressParts {
  std::string_view host;                 ///< without brackets
  std::optional<std::string_view> port;  ///< set if a colon follows the host; may be empty
  bool bracketed = false;
};

/// Splits an address into host and port. Does not check the characters of either part. Fails with
/// invalid_argument if the host is empty, a bracket is not closed, an IPv6 host has no brackets, or
/// something other than a port follows the closing bracket. A caller that reports the failure must
/// name the address.
Result<AddressParts> split_address(std::string_view text);

/// Returns true if only processes of the same machine can connect to this host: localhost, an
/// address of 127.0.0.0/8, or ::1. `host` has no brackets. Resolves no name.
bool is_loopback(std::string_view host);

/// Returns true if the host is an IPv6 link-local address (fe80::/10), with or without its
/// interface (fe80::1%eth0). Without it, nobody can connect to the address or listen on it.
bool is_link_local(std::string_view host);

/// Returns true if the host is an IPv4 link-local address (169.254.0.0/16). A machine gives itself
/// one where no server does, and no router passes it on.
bool is_ipv4_link_local(std::string_view host);

/// Returns the address that most other machines can reach: the first that is neither loopback nor
/// link-local; else the first that is IPv4 link-local; else an empty string.
std::string widest_address(std::span<const std::string> addresses);

/// Returns host:port, with brackets around an IPv6 host.
std::string address_text(std::string_view host, std::uint16_t port);

}  // namespace c10dd
