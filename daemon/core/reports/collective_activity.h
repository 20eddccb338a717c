// SPDX-License-Identifier: Apache-2.0
// Keeps how far the ranks of a job have come in its process groups, as their sessions report it. In
// memory only: after a restart of the daemon, each client reports all its groups again when it
// connects. A rank stays known when it has closed its group, or its session has ended, so that the
// others can be told; the group is forgotten when no rank has it open.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "daemon/core/audit.h"
#include "daemon/core/reports/activity_groups.h"
#include "daemon/core/sessions/sessions.h"
#include "protocol/error.h"

namespace c10dd::core {

class CollectiveActivity {
 public:
  /// From this age on, a client reports an operation again and again until it has ended.
  static constexpr Duration kReportedOld = std::chrono::milliseconds(500);
  /// A wait counts as old after this time.
  static constexpr Duration kOld = std::chrono::seconds(1);
  /// Or after so many times the usual time of its operation, if that is longer.
  static constexpr int kUsual = 10;
  /// But at most after this time.
  static constexpr Duration kMost = std::chrono::seconds(60);

  /// Returns the time after which a wait counts as old.
  static Duration patience(Duration usual) {
    return std::clamp<Duration>(std::min<Duration>(usual, kMost) * kUsual, kOld, kMost);
  }

  explicit CollectiveActivity(const Sessions& sessions) : sessions_(sessions) {}

  /// Which diagnosis a report may change.
  struct Reported {
    /// When an operation of it, or a deviation, is to be looked at.
    std::optional<TimePoint> look_at;
    bool refresh = false;  ///< a diagnosis, if there is one, may have ended or changed
  };
  /// Returns how much memory a report adds for the process groups that it opens.
  std::size_t memory_of(const SessionId& session, const Activity& activity) const;
  /// Takes a report. One that fails changes nothing.
  /// Fails with too_large, quota_exceeded, size_mismatch or not_found; with invalid_argument if its
  /// numbers do not fit together, or to earlier reports, or if a rank is already another session's.
  Result<Reported> report(const SessionId& session, const Activity& activity, TimePoint now);

  /// Notes that a session ends. It must still be in the table of sessions.
  void end(const SessionId& session, Ending ending);

  const std::map<std::uint64_t, ActivityGroup>& groups() const { return groups_; }
  /// Returns the groups that have an operation with OldestOperation::old.
  const std::set<std::uint64_t>& busy() const { return busy_; }
  /// Returns the groups whose marks may show a deviation.
  const std::set<std::uint64_t>& deviating() const { return deviating_; }

  std::size_t reporters() const { return reporters_.size(); }
  const Reporter& reporter(std::uint32_t number) const { return reporters_[number]; }
  /// Returns null if the session has opened no group.
  const Reporter* find(const SessionId& session) const;

  /// Returns the bytes that are charged for what it holds.
  std::size_t charged() const;
  AuditResult audit() const;

 private:
  Result<void> check(const Reporter* by, const Activity& activity) const;
  Result<void> check_opened(const Reporter* by, const OpenedGroup& opened) const;
  Result<void> check_told(const Reporter* by, const Activity& activity,
                          const GroupActivity& told) const;

  std::uint32_t number_of(const SessionId& session);
  void open(std::uint32_t number, const OpenedGroup& opened, TimePoint now);
  void tell(const OpenPlace& place, const GroupActivity& told, TimePoint now, Reported& found);
  static void tell_blocked(const OpenPlace& place, bool blocked, Reported& found);
  static void tell_ended(const OpenPlace& place, const EndedCollective& told, Reported& found);
  void close(std::uint32_t number, std::uint64_t process_group);
  void vacate(std::uint64_t process_group, ActivityGroup& group, Rank rank);
  void forget(std::uint64_t process_group);
  void leave(std::uint32_t number);

  const Sessions& sessions_;
  std::map<std::uint64_t, ActivityGroup> groups_;
  std::size_t ranks_ = 0;  // sizes of all groups together
  std::set<std::uint64_t> busy_;
  std::set<std::uint64_t> deviating_;
  std::vector<Reporter> reporters_;
  std::vector<std::uint32_t> free_;                                      // places in reporters_
  std::unordered_map<SessionId, std::uint32_t, SessionIdHash> numbers_;  // never iterated
};

}  // namespace c10dd::core
