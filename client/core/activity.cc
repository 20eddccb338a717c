// SPDX-License-Identifier: Apache-2.0
// Decides which groups a report names, and what the daemon knows after its reply.
#include "client/core/activity.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "client/core/planted.h"
#include "protocol/limits.h"

namespace c10dd::client {
namespace {

/// Compares all but times and marks: an age grows by itself, and new marks come with new counts.
bool same(const GroupActivity& one, const GroupActivity& other) {
  const auto counts = [](const OperationCounts& c) {
    return std::tie(c.issued, c.not_begun, c.unfinished);
  };
  const auto operation = [](const UnfinishedOperation& o) {
    return std::tie(o.kind, o.begun, o.sequence, o.peer, o.name, o.arguments);
  };
  return counts(one.collectives) == counts(other.collectives) &&
         counts(one.messages) == counts(other.messages) &&
         std::ranges::equal(one.oldest, other.oldest, {}, operation, operation);
}

/// Returns how many collectives had ended with the last one that is described; 0: none is.
std::uint64_t ended_of(const ReadGroup& read) { return read.ended ? read.ended->sequence + 1 : 0; }

bool idle(const GroupActivity& activity) {
  return activity.collectives.unfinished == 0 && activity.messages.unfinished == 0;
}

/// Returns the age of the oldest operation.
Duration age_of(const GroupActivity& activity) {
  Duration age{0};
  for (const UnfinishedOperation& operation : activity.oldest) age = std::max(age, operation.age);
  return age;
}

bool has_old(const ReadGroup& read) {
  return !read.activity.oldest.empty() && !planted(Planted::old_group_rests) &&
         age_of(read.activity) >= std::min(ActivityReports::kOld, read.timeout / 4);
}

/// Raises `told` to the newest sequence of the marks.
template <class Mark>
void note_marks(const std::vector<Mark>& marks, std::uint64_t& told) {
  for (const Mark& mark : marks) told = std::max(told, mark.sequence);
}

/// Returns whether the daemon has not taken a report because of what it says.
bool is_refusal(Code code) {
  return code == Code::invalid_argument || code == Code::size_mismatch ||
         code == Code::quota_exceeded || code == Code::too_large;
}

constexpr int kGoesOn = 3;  // the urgency of a group that goes on

}  // namespace

/// The place of a group in the order of a report: the lowest comes first.
struct ActivityReports::Due {
  int urgency = 0;  ///< 0, 1, 2, kGoesOn or more
  TimePoint since;
  std::uint64_t process_group = 0;

  auto operator<=>(const Due&) const = default;
};

ActivityReports::ActivityReports() : most_(limits::kGroupsPerActivity) {}

void ActivityReports::open(WatchedGroup group) {
  const std::uint64_t id = group.opened.process_group;
  // The reply to a report would concern the group that had this number before.
  if (groups_.erase(id) > 0) in_flight_.reset();
  // To the daemon, which has the same limit, those that it does not know as closed are open.
  if (groups_.size() >= limits::kOpenGroups) return;
  groups_[id].watched = std::move(group);
}

void ActivityReports::close(std::uint64_t process_group) {
  const auto it = groups_.find(process_group);
  if (it == groups_.end() || it->second.closed) return;
  Group& group = it->second;
  if (!group.sent) {
    groups_.erase(it);
    return;
  }
  group.closed = true;
  if (group.refused_at) group.refused_at = TimePoint();  // told once more
  group.newest = group.watched.read();
  group.watched.read = {};
  group.watched.hopeless = {};
}

std::optional<ActivityReports::Due> ActivityReports::due(const Group& group, bool blocked_changed,
                                                         TimePoint now) const {
  const std::uint64_t id = group.watched.opened.process_group;
  if (group.closed) return Due{1, group.told_at, id};
  const bool changed = group.times_told == 0 || !same(group.newest.activity, group.told);
  if (group.old) {
    const bool again = group.times_told < 2 || blocked_changed || now - group.told_at >= kRepeat;
    if (!changed && !again) return std::nullopt;
    return Due{0, now - age_of(group.newest.activity), id};
  }
  if (!changed) return std::nullopt;
  const bool stopped = idle(group.newest.activity) && now - group.changed_at >= kStill;
  if (group.times_told == 0 || group.told_old || stopped) return Due{2, group.told_at, id};
  if (now - rested_at_ < kRest) return std::nullopt;
  return Due{kGoesOn, group.told_at, id};
}

/// Adds a group to a report, with the marks that the daemon does not know.
void ActivityReports::add(Activity& report, const Group& group, ReadGroup read, bool stalled) {
  GroupActivity& activity = read.activity;
  activity.process_group = group.watched.opened.process_group;
  if (stalled && ended_of(read) > group.ended_told && !planted(Planted::ended_untold)) {
    read.ended->process_group = activity.process_group;
    report.ended.push_back(std::move(*read.ended));
  }
  if (group.blocked && !group.closed) {
    report.blocked_groups.push_back(activity.process_group);
  }
  std::erase_if(activity.hash_marks, [&](const auto& m) { return m.sequence <= group.hash_told; });
  std::erase_if(activity.time_marks, [&](const auto& m) { return m.sequence <= group.time_told; });
  report.groups.push_back(std::move(activity));
}

void ActivityReports::add_opened(Activity& report, Group& group) {
  group.sent = true;
  report.opened.push_back(group.watched.opened);
}

/// Returns the groups that a report is due for, in their order; or only one that was refused
/// before.
std::vector<ActivityReports::Due> ActivityReports::all_due(bool stalled, TimePoint now) const {
  std::vector<Due> all;
  for (const auto& [id, group] : groups_) {
    if (group.refused_at && now - *group.refused_at < kRefused) continue;
    auto place = due(group, stands_ != blocked_told_, now);
    const bool untold_end =
        ended_of(group.newest) > group.ended_told && now - group.changed_at >= kOld;
    const bool untold = stalled && (untold_end || group.blocked != group.told_blocked);
    if (!place && untold) place = Due{kGoesOn + 1, group.told_at, id};
    if (place && group.refused_at) return {*place};
    if (place) all.push_back(*place);
  }
  std::ranges::sort(all);
  return all;
}

std::optional<Activity> ActivityReports::next(bool again, bool blocked, TimePoint now) {
  in_flight_.reset();
  if (again) {
    forget_told();
    for (auto& [id, group] : groups_) group.refused_at.reset();
    most_ = limits::kGroupsPerActivity;
    not_before_ = TimePoint();
    unsupported_ = false;
  }
  if (unsupported_ || now < not_before_) return std::nullopt;
  if (rested_at_ == TimePoint()) rested_at_ = now;
  bool changed = !blocked;
  for (auto& [id, group] : groups_) {
    if (!group.closed) {
      ReadGroup read = group.watched.read();
      if (!same(read.activity, group.newest.activity)) {
        group.changed_at = now;
        changed = true;
      }
      if (read.blocked_in != group.newest.blocked_in) group.blocked_since = now;
      group.newest = std::move(read);
      group.old = has_old(group.newest);
      group.blocked = group.newest.blocked_in && now - group.blocked_since >= kStill;
    }
  }
  if (changed) blocked_since_ = now;
  stands_ = blocked && now - blocked_since_ >= kStill;
  const bool stalled = std::ranges::any_of(
      groups_, [](const auto& entry) { return !entry.second.closed && entry.second.old; });
  std::vector<Due> all = all_due(stalled, now);
  const bool goes_on =
      std::ranges::any_of(all, [](const Due& one) { return one.urgency == kGoesOn; });
  if (all.size() > most_) {
    all.resize(most_);
  } else if (goes_on) {
    rested_at_ = now;
  }

  Activity report;
  report.blocked = stands_;
  for (const Due& place : all) {
    Group& group = groups_.at(place.process_group);
    add(report, group, group.newest, stalled);
    if (!group.known) add_opened(report, group);
    if (group.closed) report.closed.push_back(place.process_group);
  }
  for (auto& [id, group] : groups_) {
    if (most_ < limits::kGroupsPerActivity || report.opened.size() >= kOpenedPerReport) break;
    const auto same_id = [id = id](const OpenedGroup& one) { return one.process_group == id; };
    const bool fresh = !group.known && !group.refused_at;
    if (fresh && std::ranges::none_of(report.opened, same_id)) add_opened(report, group);
  }
  if (report.opened.empty() && report.groups.empty()) return std::nullopt;
  in_flight_ = report;
  return report;
}

std::optional<Activity> ActivityReports::timed_out(std::uint64_t process_group, bool blocked) {
  const auto it = groups_.find(process_group);
  if (unsupported_ || it == groups_.end() || it->second.closed) return std::nullopt;
  std::vector<std::pair<Duration, std::uint64_t>> order;  // the oldest first
  std::map<std::uint64_t, ReadGroup> read;
  for (const auto& [id, group] : groups_) {
    if (group.closed || (group.refused_at && id != process_group)) continue;
    const ReadGroup& one = read[id] = group.watched.read();
    if (id == process_group || has_old(one)) order.emplace_back(-age_of(one.activity), id);
  }
  const auto first =
      std::ranges::find(order, process_group, [](const auto& o) { return o.second; });
  first->first = Duration::min();
  std::ranges::sort(order);
  if (order.size() > limits::kGroupsPerActivity) order.resize(limits::kGroupsPerActivity);

  Activity report;
  report.blocked = blocked && stands_;
  report.timed_out = true;
  for (const auto& [age, id] : order) {
    Group& group = groups_.at(id);
    add(report, group, std::move(read.at(id)), true);
    add_opened(report, group);  // the session may have connected since the last next()
  }
  return report;
}

/// Forgets what the daemon knows. It may still know groups that were sent, so closed ones stay.
void ActivityReports::forget_told() {
  for (auto& [id, group] : groups_) {
    group.known = group.told_old = group.told_blocked = false;
    group.times_told = 0;
    group.told_at = TimePoint();
    group.ended_told = group.hash_told = group.time_told = 0;
  }
  in_flight_.reset();
}

/// Halves the reports until a refused group stands alone.
void ActivityReports::note_refused(const Activity& report, TimePoint now) {
  if (report.groups.size() > 1 || report.opened.size() > 1) {
    most_ = std::max<std::size_t>(1, report.groups.size() / 2);
    return;
  }
  const auto it = groups_.find(report.groups.empty() ? report.opened[0].process_group
                                                     : report.groups[0].process_group);
  most_ = limits::kGroupsPerActivity;
  if (it == groups_.end()) return;
  it->second.refused_at = now;
  if (it->second.closed) groups_.erase(it);
}

void ActivityReports::note_told(const Activity& report, TimePoint now) {
  blocked_told_ = report.blocked;
  if (report.groups.size() < most_) most_ = limits::kGroupsPerActivity;  // all was told
  for (const OpenedGroup& opened : report.opened) {
    const auto it = groups_.find(opened.process_group);
    if (it != groups_.end()) it->second.known = true;
  }
  for (const GroupActivity& told : report.groups) {
    const auto it = groups_.find(told.process_group);
    if (it == groups_.end()) continue;
    Group& group = it->second;
    group.refused_at.reset();
    const bool repeated = group.times_told > 0 && same(told, group.told);
    group.times_told = repeated ? group.times_told + 1 : 1;
    group.told_at = now;
    group.told_old = group.old;
    group.told_blocked = std::ranges::count(report.blocked_groups, told.process_group) > 0;
    note_marks(told.hash_marks, group.hash_told);
    note_marks(told.time_marks, group.time_told);
    group.told = told;
  }
  for (const EndedCollective& told : report.ended) {
    const auto it = groups_.find(told.process_group);
    if (it != groups_.end()) it->second.ended_told = told.sequence + 1;
  }
  for (const std::uint64_t id : report.closed) {
    const auto it = groups_.find(id);
    if (it != groups_.end() && it->second.closed) groups_.erase(it);
  }
}

/// Takes what a reply says. Returns nothing if it is a failure.
const ActivityDiagnosis* ActivityReports::take(const Reply& reply, TimePoint now) {
  if (reply) {
    newest_ = std::get<ActivityDiagnosis>(*reply);
    replied_at_ = now;
    return &newest_;
  }
  if (reply.error().code != Code::unknown_op) return nullptr;
  std::erase_if(groups_, [](const auto& entry) { return entry.second.closed; });
  unsupported_ = true;
  return nullptr;
}

void ActivityReports::replied(const Reply& reply, TimePoint now) {
  const auto report = std::exchange(in_flight_, std::nullopt);
  if (take(reply, now) == nullptr) {
    if (report && is_refusal(reply.error().code)) {
      note_refused(*report, now);
    } else {
      forget_told();  // the daemon may have taken all of the report, or nothing
    }
    not_before_ = now + kRepeat;
    return;
  }
  if (report) note_told(*report, now);
  if (planted(Planted::hopeless_ignored)) return;
  for (const std::uint64_t id : newest_.hopeless) {
    const auto it = groups_.find(id);
    if (it == groups_.end() || !it->second.watched.hopeless) continue;
    const auto hopeless = std::exchange(it->second.watched.hopeless, {});
    hopeless(newest_);  // may close groups
  }
}

void ActivityReports::explained(const Activity& report, const Reply& reply, TimePoint now) {
  in_flight_.reset();  // the daemon may get it first, although it is newer
  for (std::size_t i = 0; i < report.groups.size(); ++i) {
    const auto [it, added] = groups_.try_emplace(report.groups[i].process_group);
    Group& group = it->second;
    group.times_told = 0;
    if (!added) continue;
    // The daemon may have learned that it is closed before it got this report.
    group.watched.opened = report.opened[i];
    group.newest.activity = report.groups[i];
    group.closed = group.sent = true;
  }
  take(reply, now);
}

const ActivityDiagnosis* ActivityReports::diagnosis(std::uint64_t process_group,
                                                    TimePoint now) const {
  const bool fresh = now - replied_at_ <= kFresh;
  const bool names_it = std::ranges::count(newest_.groups, process_group) > 0;
  return fresh && names_it ? &newest_ : nullptr;
}

}  // namespace c10dd::client
