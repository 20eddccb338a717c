// SPDX-License-Identifier: Apache-2.0
// The load generator: one thread, one epoll, a closed loop. Every connection keeps `depth`
// requests open; a reply makes room for the next request. A request's latency is from the system
// call that sent it to the system call that read its reply.
#pragma once

#include "tests/bench/conversation.h"
#include "tests/bench/histogram.h"

namespace c10dd::bench {

inline constexpr double kWarmUpShare = 0.2;  // of a round, in addition to it

struct LoadOptions {
  unsigned connections = 1;
  unsigned depth = 1;
  double warm_up_seconds = 0;  ///< not counted
  double seconds = 1;
};

/// One measured interval.
struct Measurement {
  Histogram latency;
  double seconds = 0;      ///< that it really took
  double cpu_seconds = 0;  ///< of all threads of the server in it; 0 when its process is not ours
};

/// Opens the connections, loads the target, closes them. Throws std::runtime_error on any answer
/// that is not a success, a lost connection or a stall.
Measurement run_load(const Target& target, const LoadOptions& options);

}  // namespace c10dd::bench
