// SPDX-License-Identifier: Apache-2.0
// Where a client connects to: the URL c10dd://host:port/job, and what launchers put into the
// environment. Pure; errors name the part or the variable that is wrong.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "client/client.h"
#include "client/internal/launch_environment.h"
#include "protocol/error.h"

namespace c10dd::client {

inline constexpr std::uint16_t kDefaultPort = 29500;

struct Url {
  std::string host;  ///< without the brackets of IPv6
  std::uint16_t port = kDefaultPort;
  std::string job;

  /// host:port, with brackets around IPv6.
  std::string address() const;
};

Result<Url> parse_url(std::string_view text);

struct Launch {
  std::string url;
  ClientOptions options;
};

/// C10DD_URL, or C10DD_ADDR and C10DD_JOB; C10DD_RUN; rank and world size as launch_environment.h
/// finds them. With C10DD_ADDR alone, job and run are those of the launcher, if it names them.
Result<Launch> read_environment(const Environment& environment);

}  // namespace c10dd::client
