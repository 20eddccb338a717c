// SPDX-License-Identifier: Apache-2.0
#include "protocol/address.h"

#include "protocol/format.h"
#include "protocol/utf8.h"

namespace c10dd {
namespace {

constexpr std::size_t kQuotedBytes = 120;

Failure refused(std::string why) { return failure(Code::invalid_argument, std::move(why)); }

}  // namespace

Result<AddressParts> split_address(std::string_view text) {
  AddressParts parts;
  std::string_view rest;
  parts.bracketed = text.starts_with('[');
  if (parts.bracketed) {
    const std::size_t close = text.find(']');
    if (close == std::string_view::npos) return refused("the host has no closing bracket");
    parts.host = text.substr(1, close - 1);
    rest = text.substr(close + 1);
    if (!rest.empty() && rest.front() != ':') {
      return refused("the host's closing bracket is followed by something other than a port");
    }
  } else {
    parts.host = text.substr(0, text.find(':'));
    rest = text.substr(parts.host.size());
    if (rest.find(':', 1) != std::string_view::npos) {
      return refused(format("an IPv6 host needs brackets, [{}]", printable(text, kQuotedBytes)));
    }
  }
  if (parts.host.empty()) return refused("the host is empty");
  if (!rest.empty()) parts.port = rest.substr(1);
  return parts;
}

std::string address_text(std::string_view host, std::uint16_t port) {
  const bool v6 = host.find(':') != std::string_view::npos;
  return v6 ? format("[{}]:{}", host, port) : format("{}:{}", host, port);
}

}  // namespace c10dd
