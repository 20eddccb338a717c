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
  std::vector<std::string> unread = {};  ///< why files could not be read; a sentence each
  std::size_t others = 0;                ///< files in the folders that are no flight records
  /// Records in the folders that an earlier run has left: written kOld before the newest record.
  std::vector<std::string> old = {};
  static constexpr std::int64_t kOld = 3'600'000'000'000;  ///< ns
};

/// Reads files, and in folders those whose names end in a rank, such as PREFIX12 or PREFIX12.json.
/// Does not look into folders of folders. The records of an earlier run count only if their files
/// are named.
FlightFiles read_flight_files(const std::vector<std::string>& paths);

}  // namespace c10dd::ctl
