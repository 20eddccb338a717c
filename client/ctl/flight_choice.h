// SPDX-License-Identifier: Apache-2.0
// Chooses the flight records of one run of one job, and leaves out those that do not fit to most of
// the others. Pure.
#pragma once

#include <string>
#include <vector>

#include "client/ctl/flight_job.h"
#include "protocol/error.h"

namespace c10dd::ctl {

struct ChosenRecords {
  std::vector<RankRecord> records;         ///< by rank; each rank once
  std::vector<std::string> left_out = {};  ///< which, and why; a sentence each
};

/// Chooses the records that agree: on the job, on the ranks of each group and on its number, one of
/// each rank. Of two that do not agree, the one that contradicts more of the others is left out,
/// then the one whose file is named otherwise than most, then the older. Fails with
/// invalid_argument unless more than half of the records are left.
Result<ChosenRecords> choose_records(std::vector<RankRecord> records);

}  // namespace c10dd::ctl
