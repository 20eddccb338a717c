// SPDX-License-Identifier: Apache-2.0
// Why a generation failed, as one line that the failing agent gives to the daemon and every other
// agent reads back from the group's reason: so all end with the same cause and exit code. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/launcher/crew.h"

namespace c10dd::run {

inline constexpr std::size_t kCauseBytes = 1'900;  // the daemon keeps 2 KiB and adds the member

struct FailureReport {
  int exit_code = 1;
  std::string
      reporter;      ///< "node 0 (host-a, agent pid 99)"; empty while the daemon has not said it
  std::string head;  ///< "rank 3 on host-b (pid 123) exited with code 1: ValueError: nan"
  std::vector<std::string> last;  ///< its last lines

  /// "exit code 139: rank 3 on ... SIGSEGV; last lines: a | b", at most kCauseBytes: of the lines
  /// the newest that fit.
  std::string cause() const;
  /// "node 0 (host-a, agent pid 99) reports: rank 3 on ...".
  std::string text() const;
};

FailureReport make_failure_report(const FailedWorker& failed, const std::string& host);

/// From a group's reason. Nothing when the generation ended for another reason.
std::optional<FailureReport> read_verdict(std::string_view reason);

/// The members of the group are the nodes: "rank 1 on host-b (pid 9)" is node 1 for people, since
/// their ranks are those of workers. What a failed worker's cause says stays.
std::string of_nodes(std::string_view text);

}  // namespace c10dd::run
