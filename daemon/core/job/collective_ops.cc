// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/job/collective_ops.h"

#include <algorithm>

#include "daemon/core/planted.h"

namespace c10dd::core {
namespace {

bool is_old(const OldestOperation& operation, TimePoint now) {
  return operation.old && now - operation.since >= CollectiveActivity::patience(operation.usual);
}

}  // namespace

OptionalReply CollectiveOps::on(Step& step, const Activity& activity) {
  const SessionId& session = step.from.session;
  if (auto full = step.allowance.refuses(activity_.memory_of(session, activity),
                                         "this report of process groups")) {
    return Reply(std::move(*full));
  }
  const Result<CollectiveActivity::Reported> reported =
      activity_.report(session, activity, step.now);
  if (!reported) return reported.error();
  diagnoses_.wake(*reported, step.now);
  if (activity.timed_out) diagnoses_.note_time_out(step.now);
  ActivityDiagnosis found = concerning(session, activity, step.now);
  if (!activity.timed_out || activity.groups.empty()) return reply(std::move(found));
  const std::uint64_t overdue = activity.groups.front().process_group;
  if (std::ranges::find(found.groups, overdue) != found.groups.end())
    return reply(std::move(found));
  ActivityDiagnosis own = of_group(overdue, step.now);
  return reply(own.groups.empty() ? std::move(found) : std::move(own));
}

/// Returns the diagnosis of the job as far as it concerns a session: it names process groups that
/// the session has open, or the session waits in a group behind the cause.
ActivityDiagnosis CollectiveOps::concerning(const SessionId& session, const Activity& activity,
                                            TimePoint now) const {
  const Diagnosis& current =
      activity.timed_out ? diagnoses_.for_time_outs(now) : diagnoses_.current();
  const Reporter* const reporter = activity_.find(session);
  if (reporter == nullptr) return {};
  ActivityDiagnosis found = hopeless(*reporter);
  if (!found.groups.empty() && found.sentence != current.sentence) return found;
  if (current.kind == Diagnosis::Kind::none) return {};
  if (found.groups.empty()) {
    found = activity.timed_out ? Diagnoses::shown(current) : diagnoses_.shown();
    for (const OpenPlace& open : reporter->open) {
      if (!std::ranges::binary_search(current.process_groups, open.process_group)) continue;
      found.groups.push_back(open.process_group);
    }
  }
  // The others that are old are in this report, because a client repeats them.
  for (const GroupActivity& told : activity.groups) {
    const OpenPlace* const place = reporter->place_in(told.process_group);
    if (place == nullptr || std::ranges::count(found.groups, told.process_group) > 0) continue;
    const RankActivity& known = place->group->ranks[place->rank];
    if (is_old(known.collective, now) || is_old(known.message, now)) {
      found.groups.push_back(told.process_group);
    }
  }
  return found.groups.empty() ? ActivityDiagnosis{} : found;
}

/// Returns the diagnosis that has found groups hopeless that a session has open, or one that
/// concerns no group.
ActivityDiagnosis CollectiveOps::hopeless(const Reporter& reporter) const {
  ActivityDiagnosis found;
  if (planted(Planted::hopeless_untold)) return found;
  const ActivityDiagnosis* first = nullptr;
  for (const OpenPlace& open : reporter.open) {
    const ActivityDiagnosis* const told = diagnoses_.hopeless(open.process_group);
    if (told == nullptr || (first != nullptr && told->sentence != first->sentence)) continue;
    if (first == nullptr) found = *(first = told);
    found.groups.push_back(open.process_group);
  }
  found.hopeless = found.groups;
  return found;
}

/// Returns why the operations of one group do not end. It concerns no group if nothing is found.
ActivityDiagnosis CollectiveOps::of_group(std::uint64_t process_group, TimePoint now) {
  const auto kept = of_groups_.find(process_group);
  if (kept != of_groups_.end() && now - kept->second.first < kKept) return kept->second.second;
  std::erase_if(of_groups_, [&](const auto& one) { return now - one.second.first >= kKept; });
  const JobWaits waits = wait_fors(sources_(now), process_group);
  ActivityDiagnosis found;
  const Diagnosis diagnosis = diagnose(waits.wait_fors, {}, waits.ranks, now);
  if (waits.unsettled.empty() && diagnosis.kind != Diagnosis::Kind::none) {
    found = Diagnoses::shown(diagnosis);
    found.groups = {process_group};
    if (diagnosis.hopeless) found.hopeless = found.groups;
  }
  of_groups_[process_group] = {now, found};
  return found;
}

}  // namespace c10dd::core
