// SPDX-License-Identifier: Apache-2.0
// Describes in one line why a generation failed. The agent of the failed worker sends this line to
// the daemon. The daemon tells all agents why the generation has ended. This text contains the
// line. So all agents read the same line, print the same cause, and end with the same exit code.
// All functions are pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/launcher/workers.h"

namespace c10dd::run {

/// The maximum length of cause() in bytes. It is less than the limit for the reason of a group
/// (2 KiB), because the daemon puts other text before the cause.
inline constexpr std::size_t kCauseBytes = 1'900;

struct FailureReport {
  int exit_code = 1;
  /// The node that sent the report, such as "node 0 (host-a, agent pid 99)". Only
  /// read_failure_report() sets this field. It stays empty if the reason names no node.
  std::string reporter;
  std::string head;  ///< "rank 3 on host-b (pid 123) exited with code 1: ValueError: nan"
  std::vector<std::string> last;  ///< the last output lines of the worker

  /// Returns the line for the daemon, at most kCauseBytes long, with as many of the worker's last
  /// lines as fit. Example: "exit code 139: rank 3 on ... SIGSEGV; last lines: a | b".
  std::string cause() const;
  /// Returns a text such as "node 0 (host-a, agent pid 99) reports: rank 3 on ...".
  std::string text() const;
};

FailureReport make_failure_report(const FailedWorker& failed, const std::string& host);

/// Reads the failure report from the reason that a group gives for the end of a generation. Returns
/// nothing if that reason contains no failure report.
std::optional<FailureReport> read_failure_report(std::string_view reason);

/// Returns the text with each member of the group written as a node: "rank 1 on host-b (pid 9)"
/// becomes "node 1 (host-b, agent pid 9)". Users would take "rank 1" for the rank of a worker. Does
/// not change the part of the text about a failed worker.
std::string of_nodes(std::string_view text);

}  // namespace c10dd::run
