// SPDX-License-Identifier: Apache-2.0
// Turns the cumulative totals that sessions report into differences, so that a lost report loses no
// measurement and a repeated report counts nothing twice. The ledger is not durable: after a
// restart of the daemon, the next report of each session counts with its full totals again.
#pragma once

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "daemon/core/audit.h"
#include "protocol/ops.h"

namespace c10dd::core {

class CollectiveLedger {
 public:
  /// Counts a report, and returns its differences from the session's last report. Returns an empty
  /// list if the report is old or repeated. Fails with too_large or quota_exceeded if a limit is
  /// exceeded, and with invalid_argument if totals shrink or do not add up. A report that fails is
  /// not counted.
  Result<std::vector<CollectiveTotals>> add(const SessionId& session, const Report& report);

  void forget(const SessionId& session) { sessions_.erase(session); }
  std::size_t sessions() const { return sessions_.size(); }

 private:
  using Series = std::tuple<std::string, std::string, std::string>;
  struct Reported {
    std::uint64_t number = 0;
    std::map<Series, CollectiveTotals> totals;
  };

  std::map<SessionId, Reported> sessions_;
  // The label values that the metrics use. All names beyond the limits count as "other".
  std::set<std::string> kinds_;  // of process groups
  std::set<std::string> collectives_;
  std::set<std::string> backends_;
};

}  // namespace c10dd::core
