// SPDX-License-Identifier: Apache-2.0
// Parses the URL c10dd://host:port/job, or c10dd://a:1,b:2/job with the addresses of several
// daemons, and finds it in the environment. Pure. Errors name the part or the variable that is
// invalid.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "client/client.h"
#include "client/internal/launch_environment.h"
#include "protocol/error.h"

namespace c10dd::client {

inline constexpr std::uint16_t kDefaultPort = 29500;

inline constexpr std::size_t kDaemonsInUrl = 16;

/// The address of one daemon.
struct HostPort {
  std::string host;  ///< without the brackets of IPv6
  std::uint16_t port = kDefaultPort;

  /// Returns host:port, with brackets around an IPv6 host.
  std::string text() const;
  bool operator==(const HostPort&) const = default;
};

struct Url {
  std::vector<HostPort> daemons;  ///< 1 to kDaemonsInUrl, all different
  std::string job;

  /// Returns the addresses as in a URL, with commas between them.
  std::string addresses() const;
  /// Returns c10dd://addresses/job, which parse_url() reads as the same.
  std::string text() const;
};

/// Returns the name of a job as a URL has it: with %25 for each %.
std::string encoded_job(std::string_view job);

/// Parses a URL, whose job is percent-encoded (RFC 3986). An address without a port gets
/// kDefaultPort. Fails with invalid_argument.
Result<Url> parse_url(std::string_view text);

/// The arguments of Client::connect().
struct Launch {
  std::string url;
  ClientOptions options;
};

/// Reads the URL from C10DD_URL, or from C10DD_ADDR and C10DD_JOB, and the run name from C10DD_RUN.
/// If C10DD_ADDR is set without C10DD_JOB, the launcher gives the names that are not set. Reads
/// rank and world size with read_launch_environment(). Fails with invalid_argument.
Result<Launch> read_environment(const Environment& environment);

}  // namespace c10dd::client
