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
  std::optional<std::string_view> port;  ///< set if a colon follows the host; may be empty
  bool bracketed = false;
};

/// Splits an address into host and port. Does not check the characters of either part. Fails with
/// invalid_argument if the host is empty, a bracket is not closed, an IPv6 host has no brackets, or
/// something other than a port follows the closing bracket. A caller that reports the failure must
/// name the address.
Result<AddressParts> split_address(std::string_view text);

/// Returns host:port, with brackets around an IPv6 host.
std::string address_text(std::string_view host, std::uint16_t port);

}  // namespace c10dd
