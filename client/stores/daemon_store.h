// SPDX-License-Identifier: Apache-2.0
// The store of a job, kept by the daemon.
#pragma once

#include <memory>

#include "client/internal/connection.h"
#include "client/job_store.h"

namespace c10dd::client {

/// `limit`: how long an operation without a time-out of its own may be held up.
std::shared_ptr<JobStore> make_daemon_store(std::shared_ptr<Connection> connection, Duration limit);

}  // namespace c10dd::client
