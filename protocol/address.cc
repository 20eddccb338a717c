// SPDX-License-Identifier: Apache-2.0
#include "protocol/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <string>

#include "protocol/format.h"
#include "protocol/utf8.h"

namespace c10dd {
namespace {

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
      return refused(
          "there are several colons: write host:port, and an IPv6 host in brackets, as in "
          "[::1]:29500");
    }
  }
  if (parts.host.empty()) return refused("the host is empty");
  if (!rest.empty()) parts.port = rest.substr(1);
  return parts;
}

bool is_loopback(std::string_view host) {
  if (host == "localhost") return true;
  const std::string text(host);
  in_addr v4{};
  if (::inet_pton(AF_INET, text.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET;
  in6_addr v6{};
  if (::inet_pton(AF_INET6, text.c_str(), &v6) != 1) return false;
  return IN6_IS_ADDR_LOOPBACK(&v6) ||
         (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == IN_LOOPBACKNET);
}

bool is_link_local(std::string_view host) {
  const std::string text(host.substr(0, host.find('%')));
  in6_addr v6{};
  return ::inet_pton(AF_INET6, text.c_str(), &v6) == 1 && IN6_IS_ADDR_LINKLOCAL(&v6);
}

bool is_ipv4_link_local(std::string_view host) {
  in_addr v4{};
  return ::inet_pton(AF_INET, std::string(host).c_str(), &v4) == 1 &&
         ntohl(v4.s_addr) >> 16 == 0xa9fe;
}

std::string widest_address(std::span<const std::string> addresses) {
  std::string last;
  for (const std::string& one : addresses) {
    if (one.empty() || is_loopback(one) || is_link_local(one)) continue;
    if (!is_ipv4_link_local(one)) return one;
    if (last.empty()) last = one;
  }
  return last;
}

std::string address_text(std::string_view host, std::uint16_t port) {
  const bool v6 = host.find(':') != std::string_view::npos;
  return v6 ? format("[{}]:{}", host, port) : format("{}:{}", host, port);
}

}  // namespace c10dd
