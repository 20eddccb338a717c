// SPDX-License-Identifier: Apache-2.0
#include "protocol/server_url.h"

#include "protocol/address.h"
#include "protocol/parse.h"
#include "protocol/percent.h"

namespace c10dd {
namespace {

Failure bad_url(std::string why) { return failure(Code::invalid_argument, std::move(why)); }

/// Cuts "[user]:password@" from the front of `authority`. Returns false if the part before the @ is
/// malformed.
bool take_login(std::string_view& authority, ServerUrl& url) {
  const std::size_t at = authority.rfind('@');
  if (at == std::string_view::npos) return true;
  const std::string_view login = authority.substr(0, at);
  authority.remove_prefix(at + 1);
  const std::size_t colon = login.find(':');
  if (colon == std::string_view::npos) return false;
  const auto user = percent_decoded(login.substr(0, colon));
  const auto password = percent_decoded(login.substr(colon + 1));
  if (!user || !password || password->empty()) return false;
  url.user = *user;
  url.password = *password;
  return true;
}

}  // namespace

Result<ServerUrl> parse_server_url(std::string_view text) {
  if (!text.starts_with("//")) return bad_url("there is no // after the scheme");
  std::string_view authority = text.substr(2, text.find('/', 2) - 2);
  const std::string_view path = text.substr(2 + authority.size());
  ServerUrl url;
  if (!take_login(authority, url)) {
    return bad_url("the part before the @ must be [user]:password, with / @ : % written as %XX");
  }
  const Result<AddressParts> parts = split_address(authority);
  // The text of this failure quotes the address, so it must not be passed on.
  if (!parts) return bad_url("the server's address must be host:port, or [host]:port for IPv6");
  url.host = parts->host;
  if (parts->port) {
    const auto port = parse_number<std::uint16_t>(*parts->port);
    if (!port || *port == 0) return bad_url("the port must be an integer from 1 to 65535");
    url.port = *port;
  }
  if (!path.empty()) url.path = path.substr(1);
  return url;
}

}  // namespace c10dd
