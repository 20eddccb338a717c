// SPDX-License-Identifier: Apache-2.0
// FlightJob: the flight records of a job's ranks, put together: its process groups, where each rank
// is in them, and who waits for whom. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "client/ctl/flight_record.h"
#include "protocol/diagnosis.h"
#include "protocol/error.h"
#include "protocol/wait_for.h"

namespace c10dd::ctl {

/// The record of one rank.
struct RankRecord {
  std::string file;  ///< for error texts
  Rank rank = 0;
  FlightRecord record;
  std::int64_t written = 0;  ///< when the file was written, ns since 1970; 0: not known
};

/// Ranks of a group that have come equally far.
struct FlightPosition {
  std::string call;  ///< "all_reduce 5 of 4 float32"; empty: they have issued nothing
  FlightOperation::State state = FlightOperation::State::issued;
  std::string line = {};         ///< "train.py:25"; may be empty
  std::vector<Rank> ranks = {};  ///< ascending
};

struct FlightGroupView {
  std::string label;             ///< `group "dp"`
  std::vector<Rank> ranks = {};  ///< ascending; those that are known
  bool complete = false;         ///< it has no others
  std::optional<std::uint64_t> last =
      {};  ///< the last collective that all who have a record have ended
  std::vector<FlightPosition> positions = {};  ///< those that are behind first
};

struct FlightView {
  Diagnosis diagnosis;
  std::vector<Rank> without_record;     ///< ascending
  std::vector<FlightGroupView> groups;  ///< those in which somebody waits first
  /// ChosenRecords::left_out, and what of the records was left out; a sentence each
  std::vector<std::string> left_out = {};
};

/// Finds out who waits for whom, and why. Leaves out the records that choose_records() does, and
/// fails as it does. Needs at least one record.
Result<FlightView> view_flight(std::vector<RankRecord> records);

}  // namespace c10dd::ctl
