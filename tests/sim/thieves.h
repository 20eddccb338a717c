// SPDX-License-Identifier: Apache-2.0
// Thieves: a principal of their own, who may do much in the jobs of others, or may only read, and
// who knows the IDs of their sessions. They say hello for sessions that are connected. The oracle:
// no session is opened for them. That nothing else comes of it, the other oracles see: its client
// goes on as if nobody had come.
#pragma once

#include <memory>
#include <vector>

#include "tests/sim/daemon.h"

namespace c10dd::sim {

class Thieves : public std::enable_shared_from_this<Thieves> {
 public:
  using Fleet = std::vector<std::shared_ptr<Daemon>>;

  /// `fleet` are the daemons now, by place. `seed` is the only randomness of the thieves.
  Thieves(World& world, std::uint64_t seed, const Fleet& fleet)
      : world_(world), random_(seed), fleet_(fleet) {}

  void begin();
  void stop() { stopped_ = true; }

 private:
  void come(const std::shared_ptr<Daemon>& daemon);

  World& world_;
  Random random_;
  const Fleet& fleet_;
  std::uint64_t connections_ = 0;
  bool stopped_ = false;
};

}  // namespace c10dd::sim
