// SPDX-License-Identifier: Apache-2.0
// Endpoints of a daemon, leased, renewed and released while the daemon is killed and its disk
// fails. The oracle: what a reply has told holds, also after restarts. A leased endpoint keeps its
// port until somebody asks for its release, one that was released is gone, and no two have one
// port.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "tests/sim/daemon.h"

namespace c10dd::sim {

class Leases {
 public:
  /// `daemon` returns the daemon that listens. `seed` is the only randomness of the leases.
  Leases(World& world, std::uint64_t seed, std::function<std::shared_ptr<Daemon>()> daemon)
      : world_(world), random_(seed), daemon_(std::move(daemon)) {}

  void begin() { act_later(); }
  /// Asks for no more. check() may be called some seconds later.
  void stop() { stopped_ = true; }
  /// Checks the endpoints of the daemon.
  void check();

 private:
  /// What is known of an endpoint. Nobody knows whether a request without a reply was applied.
  struct Known {
    std::optional<std::uint16_t> port;  ///< told by a reply, and no release was asked for since
    bool released = false;              ///< a release was confirmed, and no lease asked for since
    std::uint64_t asked = 0;            ///< number of the newest request
  };

  void act_later();
  void act();
  void lease(const std::string& name);
  void release(const std::string& name);
  void violated(const std::string& what) { world_.violated("leases", what); }

  World& world_;
  Random random_;
  const std::function<std::shared_ptr<Daemon>()> daemon_;
  std::map<std::string, Known> known_;
  std::uint64_t requests_ = 0;
  bool stopped_ = false;
};

}  // namespace c10dd::sim
