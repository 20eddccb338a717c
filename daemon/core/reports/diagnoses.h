// SPDX-License-Identifier: Apache-2.0
// Keeps the diagnosis of one run: looks at who waits for whom while somebody has waited for longer
// than kOld, at most twice a second, and reports a change as an event. After the job was loaded,
// accuses nobody until all sessions that the rows name are back, or count as gone; but if all waits
// are those of process groups, it is enough that their ranks have reported. In memory only.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "daemon/core/effects.h"
#include "daemon/core/reports/wait_fors.h"
#include "protocol/diagnosis.h"

namespace c10dd::core {

class Diagnoses {
 public:
  static constexpr Duration kOld = CollectiveActivity::kOld;
  static constexpr Duration kPeriod = std::chrono::milliseconds(500);
  /// How often to look at a launch whose clients are served by proxies, though nobody waits.
  static constexpr Duration kWatch = std::chrono::seconds(1);
  /// A process group may be unsettled (CollectiveWaits) for so long. Then a rank that has not said
  /// where it is counts as the one for which the others wait.
  static constexpr Duration kUnsettled = std::chrono::seconds(20);
  /// Time-outs so long after the first one are of the same wait.
  static constexpr Duration kTimeOuts = std::chrono::seconds(30);
  /// After the job was loaded, its clients have this time to connect.
  static constexpr Duration kReturn = std::chrono::milliseconds(2500);
  /// A look with more work than this, in entries of lists, is followed by a longer pause, in
  /// proportion to the work.
  static constexpr std::size_t kWork = 16'384;
  /// A diagnosis that has not changed for some time is looked at again after this part of it, or
  /// this time, unless somebody comes, leaves, begins to wait or ends a wait.
  static constexpr int kShare = 64;
  static constexpr Duration kLongest = std::chrono::seconds(5);
  /// The same for one in which only keys are awaited, of which no heartbeat tells anything.
  static constexpr Duration kLongestOfKeys = std::chrono::minutes(2);

  /// Notes that somebody may have begun to wait at `now`.
  void wake(TimePoint now) { look_at(now + kOld); }
  /// Notes what a report of activity may change.
  void wake(const CollectiveActivity::Reported& reported, TimePoint now) {
    if (reported.look_at) look_at(*reported.look_at);
    if (reported.refresh) refresh(now);
  }
  /// Notes that waits have ended, so that the diagnosis may be out of date.
  void refresh(TimePoint now) {
    if (current_.kind != Diagnosis::Kind::none) look_at(now);
  }
  /// Notes that the job was loaded from rows.
  void resume(TimePoint now) { quiet_until_ = now + kReturn; }

  /// Looks at the job if it is time. Appends the events.
  void tick(const WaitSources& sources, std::vector<Event>& events);
  std::optional<TimePoint> next_deadline() const { return next_; }

  const Diagnosis& current() const { return current_; }
  /// The newest diagnosis with Diagnosis::State::stuck that does not hold any more, because
  /// somebody has ended the job or its wait.
  struct Ended {
    Diagnosis diagnosis;
    TimePoint at;
  };
  const std::optional<Ended>& last_stuck() const { return last_stuck_; }
  /// Returns the part of it that a reply to a report has. It names at most limits::kMissingNamed
  /// ranges of ranks, and no process group.
  const ActivityDiagnosis& shown() const { return shown_; }
  static ActivityDiagnosis shown(const Diagnosis& diagnosis);
  /// Returns the part of the diagnosis that has found a process group hopeless, or null. Holds
  /// until nobody has the group open: the first rank that aborts it ends the diagnosis, but the
  /// others must hear of it, too.
  const ActivityDiagnosis* hopeless(std::uint64_t process_group) const;
  /// Returns the diagnosis for the texts of requests that time out at `now`: the one before, if it
  /// was worse and has just changed; or the one that the first of several time-outs was told, if
  /// the others wait in the same since then. For the first one has ended a deadlock, or its
  /// process, which the texts of the others must not blame.
  const Diagnosis& for_time_outs(TimePoint now) const;
  /// Notes that a time-out was told what for_time_outs() has returned.
  void note_time_out(TimePoint now);

 private:
  void look_at(TimePoint when);
  bool is_quiet(const Sessions& sessions, TimePoint now);
  void look(const WaitSources& sources, TimePoint now, std::vector<Event>& events);
  void note_hopeless(const CollectiveActivity& activity);
  void change(Diagnosis found, TimePoint now, std::vector<Event>& events);

  void note_unsettled(const std::vector<std::uint64_t>& groups, TimePoint now);
  std::set<std::uint64_t> overdue(TimePoint now) const;

  /// By process group.
  std::map<std::uint64_t, std::shared_ptr<const ActivityDiagnosis>> hopeless_;
  std::map<std::uint64_t, TimePoint> unsettled_;  // process groups, and since when they are
  std::optional<TimePoint> next_;
  TimePoint looked_;  // when it looked last
  Duration period_ = kPeriod;
  TimePoint changed_;                     // when the diagnosis changed last
  std::optional<TimePoint> quiet_until_;  // set until the sessions are back
  Diagnosis current_;
  ActivityDiagnosis shown_;  // of current_
  TimePoint began_;          // of the first diagnosis since the kind changed
  Diagnosis previous_;       // before the last change
  std::optional<Ended> last_stuck_;
  std::optional<Ended> first_told_;  // what the first of several time-outs was told, and when
};

}  // namespace c10dd::core
