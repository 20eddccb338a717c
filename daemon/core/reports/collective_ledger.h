// SPDX-License-Identifier: Apache-2.0
// Computes what each report of a session adds to its previous report. Reports contain cumulative
// totals. Therefore the report after a lost report includes the lost measurements, and a repeated
// report adds nothing. The ledger is not durable: after a restart of the daemon, the first report
// of each session counts in full, although part of it was counted before.
#pragma once

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "daemon/core/audit.h"
#include "daemon/core/memory_ledger.h"
#include "protocol/ops.h"

namespace c10dd::core {

class CollectiveLedger {
 public:
  /// Counts a report, and returns its differences from the session's last report. Returns an empty
  /// list if the report is old or repeated. Fails with too_large or quota_exceeded if a limit is
  /// exceeded, and with invalid_argument if totals shrink or do not add up. A report that fails is
  /// not counted.
  /// `account` pays for what is kept of the session.
  Result<std::vector<CollectiveTotals>> add(const SessionId& session, const Report& report,
                                            const AccountRef& account = nullptr,
                                            const Allowance& allowance = {});

  /// Notes that the session has lost its connection. Nothing of it is in flight until its next
  /// report.
  void disconnect(const SessionId& session);
  void forget(const SessionId& session);

  /// Returns how many calls were issued and had not ended, as of the last report of each connected
  /// session.
  std::size_t in_flight() const { return in_flight_; }
  std::size_t sessions() const { return sessions_.size(); }
  /// Returns the bytes that are charged for what it holds.
  std::size_t charged() const;

 private:
  using Series = std::tuple<std::string, std::string, std::string>;
  struct Reported {
    std::uint64_t number = 0;
    std::map<Series, CollectiveTotals> totals;
    Charge charge = {};
  };

  static std::size_t in_flight_of(const std::map<Series, CollectiveTotals>& totals);

  std::map<SessionId, Reported> sessions_;
  std::size_t in_flight_ = 0;  // of all sessions
  // Values of labels in the metrics. When a set is full, a further value counts as "other".
  std::set<std::string> kinds_;  // of process groups
  std::set<std::string> collectives_;
  std::set<std::string> backends_;
};

}  // namespace c10dd::core
