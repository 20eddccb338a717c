// SPDX-License-Identifier: Apache-2.0
// A client process of the kill loop: three clients that live as long as it does, a dozen threads
// that use them in each round.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace c10dd::torture {

/// How long the daemon keeps the session of each process whose keys and deliveries are to come back
/// when it is killed.
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
