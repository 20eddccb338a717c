// SPDX-License-Identifier: Apache-2.0
// Turns the cumulative totals that sessions report into differences, so that nothing is lost with
// a report and nothing is counted twice with a repeated one. Not durable: after a restart of the
// daemon the next report of each living session brings its whole total again.
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
  /// The differences to the session's newest report; empty for an old or repeated one.
  /// invalid_argument for totals that shrink or do not add up, and then nothing is counted.
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
  // Labels of the metrics, bounded; what comes later is "other".
  std::set<std::string> kinds_;  // of process groups
  std::set<std::string> collectives_;
  std::set<std::string> backends_;
};

}  // namespace c10dd::core
