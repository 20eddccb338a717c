// SPDX-License-Identifier: Apache-2.0
// Short-lived clients ("guests") of a run that is often empty, so that the daemon retires it again
// and again. Each guest connects, sets a key of its own, reads it for a while and leaves. The
// oracle: while a guest's session lasts, its key is there, so no run was retired that had a session
// or a hello on its way.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/sim/client.h"

namespace c10dd::sim {

class Visits {
 public:
  static constexpr std::string_view kJob = "visited";

  Visits(World& world, const Swarm& swarm, Network& network, std::function<DriftingClock()> clock)
      : world_(world), swarm_(swarm), network_(network), clock_(std::move(clock)) {}

  void begin();
  /// Ends all guests; no more start.
  void end();

 private:
  struct Guest {
    std::shared_ptr<Client> client;
    std::string key;
    std::size_t first_op = 0;  ///< in records_
    TimePoint leaves;
  };

  void come_later();
  void come();
  void stay(const std::shared_ptr<Guest>& guest);
  void leave(const std::shared_ptr<Guest>& guest);
  bool judge(const Guest& guest);

  World& world_;
  const Swarm& swarm_;
  Network& network_;
  const std::function<DriftingClock()> clock_;
  Records records_;  ///< of the guests only; the daemon's records do not have them
  std::vector<std::shared_ptr<Guest>> guests_;
  std::vector<std::shared_ptr<Client>> gone_;  ///< events may still refer to them
  std::uint32_t number_ = 100'000;
  bool over_ = false;
};

}  // namespace c10dd::sim
