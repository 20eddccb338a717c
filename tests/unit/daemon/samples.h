// SPDX-License-Identifier: Apache-2.0
// What several tests of the daemon send.
#pragma once

#include <cstddef>
#include <string>

namespace c10dd::daemon {

inline constexpr std::size_t kMiB = std::size_t{1} << 20;
inline const std::string kGet = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";

}  // namespace c10dd::daemon
