// SPDX-License-Identifier: Apache-2.0
// Addresses as people write them: host:port, and [::1]:port for IPv6.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "protocol/error.h"

namespace c10dd {

/// The two parts of an address; views of its text.
struct AddressParts {
  std::string_view host;                 ///< without brackets
  std::optional<std::string_view> port;  ///< nothing if no colon follows the host
  bool bracketed = false;
};

/// Splits an address. Checks neither the characters of the host nor those of the port. Fails with
/// invalid_argument if the host is empty, a bracket is not closed or followed by something other
/// than a port, or an IPv6 host has no brackets; the detail starts at the fault, without the text.
Result<AddressParts> split_address(std::string_view text);

/// Returns host:port, with brackets around an IPv6 host.
std::string address_text(std::string_view host, std::uint16_t port);

}  // namespace c10dd
