// SPDX-License-Identifier: Apache-2.0
// Reads the flight records of a job from files and folders.
#pragma once

#include <string>
#include <vector>

#include "client/ctl/flight_job.h"
#include "protocol/error.h"

namespace c10dd::ctl {

struct FlightFiles {
  std::vector<RankRecord> records = {};
  /// Which files and folders could not be read, or were left out, and why; a sentence each.
  std::vector<std::string> odd = {};
  std::size_t others = 0;  ///< files in the folders that are no flight records
  /// Records in the folders that an earlier run has left: written kOld before the newest record.
  std::vector<std::string> old = {};
  static constexpr std::int64_t kOld = 3'600'000'000'000;  ///< ns
  /// A record is left out if it was written so long after now, unless all were.
  static constexpr std::int64_t kFuture = kOld;
};

/// Reads files, and in folders those whose names end in a rank, such as PREFIX12 or PREFIX12.json.
/// Does not look into folders of folders. The records of an earlier run count only if their files
/// are named.
FlightFiles read_flight_files(const std::vector<std::string>& paths);

}  // namespace c10dd::ctl
