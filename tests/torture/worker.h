// SPDX-License-Identifier: Apache-2.0
// A client process of the kill loop: three clients that exist as long as the process, and a dozen
// threads that use the clients in each round.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace c10dd::torture {

/// Session expiry of the processes that may be killed. Their keys are then removed, and their
/// deliveries return to the queue.
inline constexpr std::chrono::seconds kMortalExpiry{2};

struct WorkerOptions {
  std::string url;
  unsigned number = 1;
  std::uint64_t seed = 0;
};

/// Obeys the lines on its standard input, and answers each with its first word:
///   begin PREFIX WATCH_FROM FILE   a round: its history goes to the file
///   stop                           the threads that change something have ended
///   finish                         the others too: the conductor has ended what they waited for
/// Anything else, or the end of the input, ends the process. Before the first command it says
/// "ready".
int run_worker(const WorkerOptions& options);

}  // namespace c10dd::torture
