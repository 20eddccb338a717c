// SPDX-License-Identifier: Apache-2.0
// Why a generation failed, as one line. The agent of the failed worker sends the line to the
// daemon, and every agent reads it from the group's reason, so that all agents end with the same
// cause and exit code. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/launcher/crew.h"

namespace c10dd::run {

inline constexpr std::size_t kCauseBytes = 1'900;  // the daemon's prefix must fit into 2 KiB, too

struct FailureReport {
  int exit_code = 1;
  /// "node 0 (host-a, agent pid 99)"; empty if the report was not read from a group's reason.
  std::string reporter;
  std::string head;  ///< "rank 3 on host-b (pid 123) exited with code 1: ValueError: nan"
  std::vector<std::string> last;  ///< the last output lines of the worker

  /// Returns the line for the daemon: at most kCauseBytes, with as many of the worker's newest
  /// lines as fit. Example: "exit code 139: rank 3 on ... SIGSEGV; last lines: a | b".
  std::string cause() const;
  /// Returns "node 0 (host-a, agent pid 99) reports: rank 3 on ...".
  std::string text() const;
};

FailureReport make_failure_report(const FailedWorker& failed, const std::string& host);

/// Reads the report in a group's reason. Returns nothing if the generation ended for another
/// reason.
std::optional<FailureReport> read_failure_report(std::string_view reason);

/// Renames members of the group to nodes: "rank 1 on host-b (pid 9)" becomes "node 1 (host-b, agent
/// pid 9)", because users expect a rank to be that of a worker. Does not change the text about a
/// failed worker.
std::string of_nodes(std::string_view text);

}  // namespace c10dd::run
