// SPDX-License-Identifier: Apache-2.0
// The member `diagnosis` of a run, which the pages /v1/jobs and /v1/jobs/{job} share.
#pragma once

#include <chrono>
#include <string>

#include "daemon/core/host/job_slot.h"

namespace boost::json {
class object;
}

namespace c10dd::daemon {

/// Returns {"state","kind","since","sentence","ranks","hosts","waiting","evidence"}, or only
/// {"state"} if the run goes on, or nobody is connected. `since` is in Unix seconds. If the run was
/// stuck before, has "last_stuck", too: {"kind","ended","sentence","ranks","hosts"}.
boost::json::object diagnosis_json(const core::JobReport& run,
                                   std::chrono::system_clock::time_point now);

/// Returns "stuck: SENTENCE" or "last stuck: SENTENCE" with an end of line, or an empty text if the
/// run goes on.
std::string diagnosis_line(const core::JobReport& run);

}  // namespace c10dd::daemon
