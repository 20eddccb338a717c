// SPDX-License-Identifier: Apache-2.0
// Splits and writes addresses: host:port, or [host]:port if the host is an IPv6 address.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "protocol/error.h"

namespace c10dd {

/// The parts of an address, as views of the text that was split.
struct AddressParts {
  std::string_view host;                 ///< without brackets
  std::optional<std::string_view> port;  ///< no value if no colon follows the host
  bool bracketed = false;
};

/// Splits an address into host and port. Does not check the characters of either part. Fails with
/// invalid_argument if the host is empty, if a bracket is not closed, if anything except a port
/// follows the closing bracket, or if an IPv6 host has no brackets. The caller adds the address to
/// the failure's detail.
Result<AddressParts> split_address(std::string_view text);

/// Returns host:port, with brackets around an IPv6 host.
std::string address_text(std::string_view host, std::uint16_t port);

}  // namespace c10dd
