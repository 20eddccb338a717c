// SPDX-License-Identifier: Apache-2.0
// ReportedGroup: tells the daemon how far a process group has come, explains the group's failures
// by the daemon's diagnosis, and aborts the group if the daemon says that it can never go on.
// Writes the flight records of the process when the group fails, or can never go on.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "client/internal/activity_reporter.h"
#include "collectives/abortable_group.h"
#include "collectives/activity_hook.h"
#include "collectives/flight_recorder.h"

namespace c10dd::collectives {

/// The connection over which groups are reported; see client::ActivityReporter.
struct ActivityLink {
  std::string job = {};  ///< for the names of flight records
  std::function<void(client::WatchedGroup)> open;
  /// Waits until the functions of the group have returned.
  std::function<void(std::uint64_t process_group)> close;
  /// Asks why an operation of the group has not ended. `anew`: what was said of a group that goes
  /// on counts no more. Blocks for a moment.
  std::function<std::optional<ActivityDiagnosis>(std::uint64_t process_group, bool anew)> explain;
};

/// Belongs to one group, which it follows to its end.
class ReportedGroup {
 public:
  /// Returns one for a group that is opened with these options in this context. Adds its hook and
  /// explain() to them. The group keeps it.
  static std::shared_ptr<ReportedGroup> attach(ActivityLink link, GroupOptions& options,
                                               GroupContext& context);

  ReportedGroup(ActivityLink link, bool abort_when_stuck);
  ReportedGroup(const ReportedGroup&) = delete;
  ReportedGroup& operator=(const ReportedGroup&) = delete;
  /// Ends the reports, and waits until give_up_soon() has done its work. May be called by a
  /// callback of its abort.
  ~ReportedGroup();

  /// Begins to report the group, which has no operation yet. `process_group`: a random number that
  /// its ranks share, or 0. Called at most once.
  void open(std::uint64_t process_group, AbortableGroup& group);

 private:
  bool explain(const CollectiveCall& call, Failure& failure) const;
  void give_up_soon(const ActivityDiagnosis& said);
  bool is_hopeless(const ActivityDiagnosis& said) const;
  Failure stuck(const ActivityDiagnosis& said) const;
  std::vector<MissingRank> missing_of(const ActivityDiagnosis& said,
                                      MissingRank::Cause cause) const;

  const ActivityLink link_;
  const bool abort_when_stuck_;
  const std::shared_ptr<ActivityHook> hook_ = std::make_shared<ActivityHook>();
  const std::shared_ptr<FlightRecorder> flight_;
  std::uint64_t process_group_ = 0;  // 0: it is not reported
  World world_;
  std::function<void(const Failure&)> abort_;
  std::thread giving_up_;  // started by the link, at most once, before close() returns
};

}  // namespace c10dd::collectives
