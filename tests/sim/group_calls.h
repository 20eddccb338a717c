// SPDX-License-Identifier: Apache-2.0
// What one client process does as a member of its job's group: joins, watches the group, takes part
// in the barriers of its generation, reports, notifies, leaves, and joins again when the generation
// ends. Now and then it sends a request under the number of an older generation.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "tests/sim/records.h"
#include "tests/sim/swarm.h"

namespace c10dd::sim {

class GroupCalls {
 public:
  static constexpr std::string_view kGroup = "workers";

  GroupCalls(const Swarm& swarm, std::uint64_t seed);

  /// Draws the next request; empty if the drawn one is not possible now.
  std::optional<Request> next();
  /// Returns the watch of the group from the newest known status on; one at a time.
  WatchGroup watch();
  /// Takes the reply to any request.
  void done(const Op& op);
  void session_lost() { place_.reset(); }

 private:
  enum Kind : std::size_t { barriers, exchanges, some, kKinds };
  /// The position of this process in one kind of barrier of its generation.
  struct Turn {
    std::uint64_t sequence = 0;
    bool asked = false;
  };

  Request join();
  std::optional<Request> barrier(Kind kind);
  std::optional<Request> stale_barrier();
  Request progress();
  Request notify();
  std::optional<Request> acknowledge();
  Request leave();
  void joined(const Op& op);
  void watched(const Op& op);
  template <class BarrierState>
  void met(const Op& op, const BarrierState& request);

  const Swarm& swarm_;
  Random random_;
  const bool spare_;
  std::optional<Joined> place_;
  std::uint64_t round_ = 0;  ///< of the newest place in the group, even if its generation has ended
  std::uint64_t generation_ = 0;
  bool asking_ = false;  ///< for a place
  bool over_ = false;    ///< the generation has ended
  GroupStatus status_;
  std::uint64_t steps_ = 0;
  std::array<Turn, kKinds> turns_;
};

}  // namespace c10dd::sim
