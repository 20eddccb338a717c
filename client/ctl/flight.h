// SPDX-License-Identifier: Apache-2.0
// c10ddctl flight: says from the flight records of PyTorch or c10dd why a job does not go on. Asks
// no daemon.
#pragma once

#include "client/ctl/arguments.h"
#include "client/ctl/flight_job.h"
#include "client/ctl/outcome.h"

namespace c10dd::ctl {

/// Returns the sentence, the cause, and where the ranks are in each group; or all of it as JSON.
std::string text_of(const FlightView& view, bool json);

/// Reads the files and folders that the command line names. The exit code is as of `diagnose`;
/// exit_code::kUsage if there is no record that can be read, or if they are not of one job. Ranks
/// without a record count as waiting, because nobody knows.
Outcome flight(const Arguments& of);

}  // namespace c10dd::ctl
