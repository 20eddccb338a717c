// SPDX-License-Identifier: Apache-2.0
// Finds out who waits for whom in one process group, from the flight records of its ranks. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "client/ctl/flight_job.h"
#include "client/ctl/flight_record.h"
#include "protocol/wait_for.h"

namespace c10dd::ctl {

/// A rank of a process group.
struct FlightMember {
  Rank rank = 0;
  std::size_t place = 0;               ///< among the RankFacts
  const RankRecord* record = nullptr;  ///< null: there is none
  const FlightGroup* group = nullptr;  ///< null: it has recorded nothing of the group
  /// Sequences of collectives, of which the record need not have the operations: it has issued the
  /// one, and none after the other. -1: none.
  std::int64_t issued_at_least = -1;
  std::int64_t issued_at_most = -1;
};

/// A process group of the job.
struct JobGroup {
  std::string name = {};
  std::string label = {};    ///< `group "dp"`
  std::uint64_t number = 0;  ///< not 0
  bool complete = false;     ///< all members are known
  bool numbered = false;     ///< it is known which member has which number in the group
  std::vector<FlightMember> members = {};  ///< ascending by rank
};

/// What one group adds to the input of diagnose().
struct GroupWaits {
  FlightGroupView view;
  std::vector<WaitFor> wait_fors = {};
  std::vector<Deviation> deviations = {};
  /// Places of ranks that are awaited because their records do not tell how far they have come.
  std::vector<std::size_t> untold = {};
};

GroupWaits find_waits(const JobGroup& group);

}  // namespace c10dd::ctl
