// SPDX-License-Identifier: Apache-2.0
// ActivityReports: says what a process tells the daemon of its process groups, and when, and keeps
// what the daemon replies. Pure: no clock, no thread. The simulator runs it, too.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "protocol/ops.h"

namespace c10dd::client {

/// How far one process group of this process has come.
struct ReadGroup {
  GroupActivity activity;  ///< GroupActivity::process_group is not set
  /// The shortest time-out of the operations in `activity.oldest`.
  Duration timeout = Duration::max();
  std::optional<EndedCollective> ended = {};  ///< its process_group is not set
  /// Nothing unless all threads of this process that have issued operations of the group wait for
  /// other ranks. Otherwise a number that stays while each of them is in the same wait.
  std::optional<std::uint64_t> blocked_in = {};
};

/// A process group whose activity is reported.
struct WatchedGroup {
  OpenedGroup opened;
  std::function<ReadGroup()> read;
  /// Called with a reply that says that the group can never go on; at most once.
  std::function<void(const ActivityDiagnosis&)> hopeless = {};
};

/// The reports of one session. An operation is old after kOld, or after a quarter of its time-out.
/// A group is reported
/// - at once if the daemon does not know it yet, and when it was closed: how far it had come then;
/// - while it has an old operation: each change at once, then the same once more, because the
///   daemon believes what it is told twice, then every kRepeat;
/// - if it has changed, and the last report had an old operation;
/// - if it has changed, has nothing unfinished, and has stood still for kStill;
/// - if some group has an old operation, and this one has stood still for kOld without telling the
///   last collective that has ended, or if it is blocked now and was not, or the other way round;
/// - if it has changed, and the last report for this reason was kRest ago: so all groups that go on
///   share a report.
/// Groups with old operations come first, the oldest before the others, then closed ones. A report
/// has at most limits::kGroupsPerActivity groups, the next one has the others. Groups above
/// limits::kOpenGroups are not reported. After a report that the daemon refuses, the next ones have
/// half as many groups, until the refused group stands alone: it silences no other one.
class ActivityReports {
 public:
  static constexpr Duration kOld = std::chrono::milliseconds(500);
  static constexpr Duration kRepeat = std::chrono::seconds(1);
  static constexpr Duration kStill = std::chrono::seconds(1);
  static constexpr Duration kRest = std::chrono::seconds(3);
  /// How often to call next(): sooner than kOld, so that a report comes soon after it.
  static constexpr Duration kPeriod = std::chrono::milliseconds(250);
  /// A group whose report the daemon refuses is told alone, and not again for so long.
  static constexpr Duration kRefused = std::chrono::seconds(30);
  /// What the daemon has said of a group counts for so long.
  static constexpr Duration kFresh = std::chrono::seconds(2);
  /// New groups in one report.
  static constexpr std::size_t kOpenedPerReport = 256;

  ActivityReports();

  void open(WatchedGroup group);
  /// Calls WatchedGroup::read for the last time.
  void close(std::uint64_t process_group);
  /// Returns whether no group is open, and the daemon knows it.
  bool empty() const { return groups_.empty(); }

  /// Returns the report that is due, if any. `again`: the session has connected since the last
  /// call, so the daemon may have lost all earlier reports. `blocked`: see Activity::blocked.
  /// A report counts as lost if next() is called again before replied().
  std::optional<Activity> next(bool again, bool blocked, TimePoint now);
  /// Takes the reply to the last report of next(), and calls WatchedGroup::hopeless, which may call
  /// close(). The failure unknown_op ends the reports until the next connect: it is an older
  /// daemon. After a refusal the rest is told after kRepeat, after another failure all is.
  void replied(const Reply& reply, TimePoint now);

  /// Returns a report of one group, an operation of which has timed out, and of other groups with
  /// old operations; nothing if the group is not open, or the daemon does not know reports. It may
  /// be sent while reports of next() are, and the daemon may get them in any order.
  std::optional<Activity> timed_out(std::uint64_t process_group, bool blocked);
  /// Takes the reply to a report of timed_out(). What the report said of groups is told again, as
  /// it is then: the daemon may have got something newer before. Does not call
  /// WatchedGroup::hopeless: the reply to the next report of next() says the same.
  void explained(const Activity& report, const Reply& reply, TimePoint now);

  /// Returns what the daemon has said of a group within kFresh, or null.
  const ActivityDiagnosis* diagnosis(std::uint64_t process_group, TimePoint now) const;

 private:
  struct Group {
    WatchedGroup watched;
    bool closed = false;                       // kept until the daemon knows it
    std::optional<TimePoint> refused_at = {};  // since then the daemon has refused it
    ReadGroup newest;                          // as of the last next(), or of close()
    TimePoint changed_at;                      // when next() saw that it had changed
    bool old = false;                          // had an old operation then
    bool sent = false;                         // a report has opened it, so the daemon may know it
    bool known = false;            // the daemon has replied to such a report since the last connect
    GroupActivity told;            // what the daemon knows
    bool told_old = false;         // it has an old operation
    bool told_blocked = false;     // Activity::blocked_groups has named it
    TimePoint blocked_since;       // since then ReadGroup::blocked_in has not changed
    bool blocked = false;          // this has been so for kStill
    unsigned times_told = 0;       // without a change
    TimePoint told_at;             // the last time
    std::uint64_t ended_told = 0;  // how many had ended with the last one that was told
    std::uint64_t hash_told = 0;   // sequence of the newest hash mark that the daemon knows
    std::uint64_t time_told = 0;   // the same of the time marks
  };
  struct Due;

  std::optional<Due> due(const Group& group, bool blocked_changed, TimePoint now) const;
  /// `stalled`: some group has an old operation.
  static void add(Activity& report, const Group& group, ReadGroup read, bool stalled);
  static void add_opened(Activity& report, Group& group);
  std::vector<Due> all_due(bool stalled, TimePoint now) const;
  void forget_told();
  void note_refused(const Activity& report, TimePoint now);
  void note_told(const Activity& report, TimePoint now);
  const ActivityDiagnosis* take(const Reply& reply, TimePoint now);

  std::map<std::uint64_t, Group> groups_;
  std::optional<Activity> in_flight_;  // the last report of next(), until its reply
  bool blocked_told_ = false;
  TimePoint blocked_since_;  // since then nothing has ended, and all threads wait
  bool stands_ = false;      // this has been so for kStill
  TimePoint rested_at_;      // the last report of all groups that go on
  TimePoint not_before_;     // after a failure
  std::size_t most_;         // groups in a report
  ActivityDiagnosis newest_;
  TimePoint replied_at_;
  bool unsupported_ = false;  // by an older daemon
};

}  // namespace c10dd::client
