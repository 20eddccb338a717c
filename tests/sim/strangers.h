// SPDX-License-Identifier: Apache-2.0
// Strangers at a fleet: they make jobs and endpoints at one daemon after the other, as fast as it
// lets them, while the clients use theirs. Sometimes the engine has not kept the changes, as after
// the commit of an older daemon. The oracles: no daemon loses its engine by reading the directory;
// in a world without other troubles no lease ends; and when all is calm, each daemon has the
// directory that the engine has.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/sim/daemon.h"

namespace c10dd::sim {

class Strangers {
 public:
  using Fleet = std::vector<std::shared_ptr<Daemon>>;

  /// `fleet` are the daemons now, by place. `seed` is the only randomness of the strangers.
  Strangers(World& world, std::uint64_t seed, Disk& disk, const Fleet& fleet)
      : world_(world), random_(seed), disk_(disk), fleet_(fleet) {}

  void begin();
  /// No more come. Some seconds later check() may be called.
  void stop() { stopped_ = true; }
  /// Returns which daemon has another directory than the engine; an empty text if none has.
  std::string unsettled() const;

 private:
  void act(const std::shared_ptr<Daemon>& daemon);
  void connect(const std::shared_ptr<Daemon>& daemon);

  World& world_;
  Random random_;
  Disk& disk_;
  const Fleet& fleet_;
  std::size_t place_ = 0;  ///< of the daemon that they bother
  std::uint64_t jobs_ = 0;
  bool stopped_ = false;
};

}  // namespace c10dd::sim
