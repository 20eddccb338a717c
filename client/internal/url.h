// SPDX-License-Identifier: Apache-2.0
// Parses the URL c10dd://host:port/job, and finds it in the environment. Pure. Errors name the part
// or the variable that is invalid.
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

  /// Returns host:port, with brackets around an IPv6 host.
  std::string address() const;
};

/// Fails with invalid_argument. Without a port the URL has kDefaultPort.
Result<Url> parse_url(std::string_view text);

/// The arguments of Client::connect().
struct Launch {
  std::string url;
  ClientOptions options;
};

/// Reads C10DD_URL, or C10DD_ADDR and C10DD_JOB; C10DD_RUN; and rank and world size as
/// launch_environment.h finds them. With C10DD_ADDR but no C10DD_JOB, job and run are those of the
/// launcher. Fails with invalid_argument naming the variable.
Result<Launch> read_environment(const Environment& environment);

}  // namespace c10dd::client
