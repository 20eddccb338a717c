// SPDX-License-Identifier: Apache-2.0
// The implementation of JobStore: the store of a job, kept by the daemon.
#pragma once

#include <memory>

#include "client/internal/connection.h"
#include "client/job_store.h"

namespace c10dd::client {

/// Returns the store that sends its requests over `connection`. `limit` is the time-out of every
/// call that is made without a time-out.
std::shared_ptr<JobStore> make_daemon_store(std::shared_ptr<Connection> connection, Duration limit);

}  // namespace c10dd::client
