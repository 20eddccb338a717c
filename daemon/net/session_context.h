// SPDX-License-Identifier: Apache-2.0
// What a connection sees of the daemon. It outlives all connections, and is theirs on any loop.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "daemon/config/options.h"
#include "protocol/error.h"
#include "protocol/limits.h"

namespace c10dd::daemon {

class Metrics;
class Shard;
class SharedBudget;

struct SessionContext {
  const Options& options;
  Metrics& metrics;
  SharedBudget& budget;
  const std::atomic<bool>& draining;
  Shard& first;  ///< of the loop that accepts connections
  /// Returns the shard of a job and run, on that loop; null where the first has all jobs.
  std::function<Result<Shard*>(const std::string& job, const std::string& run)> shard_of;
  Duration hello_deadline = limits::kHelloDeadline;  ///< of who connects, to say what it wants
};

}  // namespace c10dd::daemon
