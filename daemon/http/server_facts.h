// SPDX-License-Identifier: Apache-2.0
// What a daemon says of itself over HTTP.
#pragma once

#include <chrono>
#include <string>

namespace c10dd::daemon {

struct ServerFacts {
  std::string version;
  std::string engine;
  std::string durability;
  std::string not_ready;   ///< reason why requests are refused; empty if they are served
  std::string note;        ///< a restriction under which requests are served; may be empty
  bool names_jobs = true;  ///< false: /readyz, which everybody may read, names no job
  std::chrono::duration<double> uptime{0};
};

}  // namespace c10dd::daemon
