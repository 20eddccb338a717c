// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/reports/diagnoses.h"

#include <algorithm>
#include <utility>

#include "daemon/core/reports/launch_waits.h"
#include "protocol/limits.h"
#include "protocol/rank_ranges.h"

namespace c10dd::core {
namespace {

/// Returns the old wait-fors, and all wait-fors in which a rank waits that one of them awaits.
/// Leaves out the others: they are waits of a job that goes on.
std::vector<WaitFor> relevant(JobWaits& all, TimePoint now) {
  std::vector<std::vector<std::size_t>> waits_in(all.ranks.size());
  std::vector<std::size_t> next;
  std::vector<bool> kept(all.wait_fors.size());
  for (std::size_t at = 0; at < all.wait_fors.size(); ++at) {
    const WaitFor& one = all.wait_fors[at];
    for (const std::size_t rank : one.waiting) waits_in[rank].push_back(at);
    const bool lost = std::ranges::any_of(
        one.awaited, [&](std::size_t rank) { return all.ranks[rank].is_lost(); });
    const Duration patience =
        lost ? Duration(CollectiveActivity::kOld) : CollectiveActivity::patience(one.usual);
    kept[at] = now - one.since >= patience || one.kind == WaitFor::Kind::launch;
    if (kept[at]) next.push_back(at);
  }
  while (!next.empty()) {
    const WaitFor& one = all.wait_fors[next.back()];
    next.pop_back();
    for (const std::size_t rank : one.awaited) {
      for (const std::size_t at : waits_in[rank]) {
        if (!kept[at]) next.push_back(at);
        kept[at] = true;
      }
    }
  }
  std::vector<WaitFor> found;
  for (std::size_t at = 0; at < kept.size(); ++at) {
    if (kept[at]) found.push_back(std::move(all.wait_fors[at]));
  }
  return found;
}

}  // namespace

void Diagnoses::look_at(TimePoint when) {
  when = std::max(when, looked_ + period_);
  if (!next_ || when < *next_) next_ = when;
}

/// Returns whether a session that the rows name may still come back.
bool Diagnoses::is_quiet(const Sessions& sessions, TimePoint now) {
  if (!quiet_until_) return false;
  if (now < *quiet_until_) return true;
  for (const auto& [id, session] : sessions.all()) {
    if (!session.seen && now < sessions.gone_at(session)) return true;
  }
  quiet_until_.reset();
  return false;
}

void Diagnoses::note_unsettled(const std::vector<std::uint64_t>& groups, TimePoint now) {
  std::map<std::uint64_t, TimePoint> noted;
  for (const std::uint64_t group : groups) {
    const auto before = unsettled_.find(group);
    noted.emplace(group, before == unsettled_.end() ? now : before->second);
  }
  unsettled_ = std::move(noted);
}

std::set<std::uint64_t> Diagnoses::overdue(TimePoint now) const {
  std::set<std::uint64_t> groups;
  for (const auto& [group, since] : unsettled_) {
    if (now - since >= kUnsettled) groups.insert(group);
  }
  return groups;
}

void Diagnoses::tick(const WaitSources& sources, std::vector<Event>& events) {
  const TimePoint now = sources.everybody.now;
  if (!next_ || *next_ > now) return;
  next_.reset();
  looked_ = now;
  look(sources, now, events);
}

void Diagnoses::look(const WaitSources& sources, TimePoint now, std::vector<Event>& events) {
  JobWaits found = wait_fors(sources, overdue(now));
  note_unsettled(found.unsettled, now);
  std::size_t work = found.ranks.size() + sources.launch.noted();
  bool only_keys = found.deviations.empty();
  bool only_groups = true;
  for (const WaitFor& one : found.wait_fors) {
    work += one.waiting.size() + one.awaited.size();
    only_keys = only_keys && one.kind == WaitFor::Kind::key;
    only_groups = only_groups && one.process_group != 0;
  }
  period_ = kPeriod * (1 + static_cast<std::int64_t>(work / kWork));
  const bool quiet = is_quiet(sources.everybody.sessions, now);
  const bool begins = sources.launch.here() > 0 && now - sources.launch.newest() < kLeftFor;
  const bool ends = sources.launch.gone() > 0;
  const bool goes_on =
      found.wait_fors.empty() && found.deviations.empty() && !begins && !ends && !quiet;
  Diagnosis diagnosis;
  if (!quiet || only_groups) {
    diagnosis = diagnose(relevant(found, now), found.deviations, found.ranks, now);
  }
  // What is not known now may be what the diagnosis says.
  if (diagnosis.kind == Diagnosis::Kind::none && !found.unsettled.empty()) {
    return look_at(now + kPeriod);
  }
  change(std::move(diagnosis), now, events);
  note_hopeless(sources.activity);
  const bool watched = sources.launch.is_proxied() && sources.launch.here() > 0;
  if (goes_on) return watched ? look_at(now + kWatch) : void();
  const Duration longest = only_keys ? kLongestOfKeys : kLongest;
  const bool found_none = current_.kind == Diagnosis::Kind::none;
  look_at(now + (found_none ? kPeriod : std::min<Duration>((now - changed_) / kShare, longest)));
}

void Diagnoses::note_hopeless(const CollectiveActivity& activity) {
  std::erase_if(hopeless_, [&](const auto& one) { return !activity.groups().contains(one.first); });
  if (!current_.hopeless) return;
  const auto told = std::make_shared<const ActivityDiagnosis>(shown_);
  for (const std::uint64_t group : current_.process_groups) hopeless_.emplace(group, told);
}

const ActivityDiagnosis* Diagnoses::hopeless(std::uint64_t process_group) const {
  const auto found = hopeless_.find(process_group);
  return found == hopeless_.end() ? nullptr : found->second.get();
}

void Diagnoses::change(Diagnosis found, TimePoint now, std::vector<Event>& events) {
  if (found.says_the_same(current_)) {
    current_ = std::move(found);
    shown_ = shown(current_);
    return;
  }
  changed_ = now;
  if (found.kind != current_.kind) {
    if (current_.kind != Diagnosis::Kind::none) {
      events.emplace_back(DiagnosisEnded{current_.kind, now - began_});
    }
    began_ = found.since;
  }
  began_ = std::min(began_, found.since);
  previous_ = std::exchange(current_, std::move(found));
  if (previous_.state == Diagnosis::State::stuck) last_stuck_ = Ended{previous_, now};
  if (current_.state == Diagnosis::State::stuck) last_stuck_.reset();
  shown_ = shown(current_);
  if (current_.kind != Diagnosis::Kind::none) {
    events.emplace_back(Diagnosed{current_, now - current_.since});
  }
}

ActivityDiagnosis Diagnoses::shown(const Diagnosis& diagnosis) {
  ActivityDiagnosis shown;
  shown.state = static_cast<std::uint8_t>(diagnosis.state);
  shown.sentence = diagnosis.sentence;
  shown.ranks = ranges_of(diagnosis.ranks);
  if (shown.ranks.size() > limits::kMissingNamed) shown.ranks.resize(limits::kMissingNamed);
  return shown;
}

const Diagnosis& Diagnoses::for_time_outs(TimePoint now) const {
  if (first_told_ && now - first_told_->at < kTimeOuts) {
    const Diagnosis& first = first_told_->diagnosis;
    const bool same_wait = current_.kind != Diagnosis::Kind::none &&
                           current_.since <= first_told_->at &&
                           current_.process_groups == first.process_groups;
    if (same_wait && (first.kind != current_.kind || first.state >= current_.state)) return first;
  }
  const bool was_worse = previous_.state > current_.state && now - changed_ < 2 * kPeriod;
  return was_worse ? previous_ : current_;
}

void Diagnoses::note_time_out(TimePoint now) {
  if (first_told_ && now - first_told_->at < kTimeOuts) return;
  const Diagnosis& told = for_time_outs(now);
  if (told.kind != Diagnosis::Kind::none) first_told_ = Ended{told, now};
}

}  // namespace c10dd::core
