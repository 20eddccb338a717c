// SPDX-License-Identifier: Apache-2.0
// Daemons that share a Redis, which syncs before it answers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/bench/servers.h"

namespace c10dd::bench {

class FleetServers {
 public:
  explicit FleetServers(unsigned daemons) : redis_("always") {
    for (unsigned i = 0; i < daemons; ++i) {
      daemons_.push_back(std::make_unique<DaemonServer>(redis_.url(), "fsync"));
    }
  }

  std::vector<Address> addresses() const {
    std::vector<Address> all;
    for (const auto& daemon : daemons_) all.push_back(daemon->address());
    return all;
  }

  /// Kills the daemon with this port.
  void kill(std::uint16_t port) {
    for (const auto& daemon : daemons_) {
      if (daemon->address().port == port) daemon->kill();
    }
  }

 private:
  RedisServer redis_;
  std::vector<std::unique_ptr<DaemonServer>> daemons_;
};

}  // namespace c10dd::bench
