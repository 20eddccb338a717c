// SPDX-License-Identifier: Apache-2.0
// Says whom a barrier or exchange was waiting for, with what is known of each.
#pragma once

#include "daemon/core/meetings.h"
#include "daemon/core/sessions.h"
#include "protocol/error.h"

namespace c10dd::core {

/// timed_out of a barrier or exchange, naming every missing rank with what is known of it.
Failure missing_ranks(const MeetingKey& key, const Meeting& meeting, const Sessions& sessions,
                      Duration timeout, TimePoint now);

}  // namespace c10dd::core
