// SPDX-License-Identifier: Apache-2.0
// Parses what follows the scheme in the URL of a server: //[[user]:password@]host[:port][/path].
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "protocol/error.h"

namespace c10dd {

/// Address, login and path of a server.
struct ServerUrl {
  std::string host;           ///< without the brackets of IPv6
  std::uint16_t port = 0;     ///< 0: the URL has no port
  std::string path = {};      ///< without the slash before it; empty if the URL has no path
  std::string user = {};      ///< empty: the server's default user
  std::string password = {};  ///< empty: the URL has no login
};

/// Parses a URL from the two slashes on. An IPv6 host is in brackets; the characters / @ : and % of
/// a user or password are percent-encoded. Fails with invalid_argument. The failure's text is only
/// what is wrong: it quotes nothing of the URL, which may contain a password.
Result<ServerUrl> parse_server_url(std::string_view text);

}  // namespace c10dd
