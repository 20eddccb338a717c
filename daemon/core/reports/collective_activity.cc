// SPDX-License-Identifier: Apache-2.0
// Checks a whole report before any part of it is taken, so that an invalid report changes nothing.
#include "daemon/core/reports/collective_activity.h"

#include <algorithm>
#include <limits>

#include "daemon/core/planted.h"
#include "daemon/core/reports/activity_checks.h"
#include "protocol/format.h"

namespace c10dd::core {
namespace {

using Reported = CollectiveActivity::Reported;

/// A rank may have issued so many collectives more than the others have.
constexpr std::uint64_t kAhead = std::uint64_t{1} << 20U;

const UnfinishedOperation* oldest_of(const GroupActivity& told, bool collective) {
  // While operations come and go, the list may be older than the counts.
  const OperationCounts& counts = collective ? told.collectives : told.messages;
  if (counts.unfinished == 0) return nullptr;
  for (const UnfinishedOperation& one : told.oldest) {
    if ((one.kind == UnfinishedOperation::Kind::collective) == collective) return &one;
  }
  return nullptr;
}

bool is_same(const OldestOperation& known, const UnfinishedOperation& told) {
  return known.exists() && known.kind == told.kind && known.sequence == told.sequence &&
         known.text->name == told.name && known.text->arguments == told.arguments;
}

void stop_being_old(ActivityGroup& group, OldestOperation& known) {
  if (known.old) --group.old;
  known.old = false;
}

void clear(ActivityGroup& group, OldestOperation& known) {
  stop_being_old(group, known);
  if (known.text != nullptr) group.texts.release(known.text);
  known = {};
}

/// Takes what a rank says of its oldest operation of a kind; null: it has none.
void tell_oldest(ActivityGroup& group, OldestOperation& known, const UnfinishedOperation* told,
                 TimePoint now, Reported& found) {
  if (told == nullptr || !is_same(known, *told)) {
    found.refresh = found.refresh || known.old;
    clear(group, known);
    if (told == nullptr) return;
    known.kind = told->kind;
    known.sequence = told->sequence;
    known.since = now - told->age;
    known.text = group.texts.take(told->name, told->arguments);
    known.begun = told->begun;
  }
  if (known.told < std::numeric_limits<std::uint8_t>::max()) ++known.told;
  found.refresh = found.refresh || known.told == 2 || known.begun != told->begun;
  known.begun = told->begun;
  known.usual = told->usual;
  known.peer = static_cast<std::int32_t>(told->peer);
  const bool old = told->age >= CollectiveActivity::kReportedOld || known.told > 1;
  if (!old || known.old) return;
  known.old = true;
  ++group.old;
  const TimePoint due = known.since + CollectiveActivity::patience(known.usual);
  found.look_at = std::min(found.look_at.value_or(due), due);
}

template <class Mark>
std::vector<Mark> up_to(std::uint64_t limit, const std::vector<Mark>& marks) {
  std::vector<Mark> kept;
  std::ranges::copy_if(marks, std::back_inserter(kept),
                       [&](const Mark& one) { return one.sequence <= limit; });
  return kept;
}

void clear_last(ActivityGroup& group, RankActivity& known) {
  if (known.last != nullptr) group.texts.release(std::exchange(known.last, nullptr));
}

RankFacts facts_of_ended(const Session& session, Ending ending) {
  RankFacts facts{.host = session.host, .pid = session.pid, .state = RankFacts::State::left};
  if (ending == Ending::expired) facts.doing = "the session expired without a connection";
  if (ending == Ending::replaced) facts.doing = "another process has taken its rank";
  if (!facts.doing.empty()) facts.state = RankFacts::State::gone;
  return facts;
}

}  // namespace

std::size_t CollectiveActivity::memory_of(const SessionId& session,
                                          const Activity& activity) const {
  const Reporter* const reporter = find(session);
  std::size_t bytes = 0;
  for (const OpenedGroup& opened : activity.opened) {
    if (reporter != nullptr && reporter->place_in(opened.process_group) != nullptr) continue;
    const auto group = groups_.find(opened.process_group);
    bytes += OpenPlace::kBytes + opened.name.size();
    if (group == groups_.end()) bytes += ActivityGroup::memory_of(opened.size);
    const bool part = group != groups_.end() && group->second.ranks.has_part(opened.rank);
    if (!part) bytes += RankTable::kPartBytes;
  }
  return bytes;
}

const Reporter* CollectiveActivity::find(const SessionId& session) const {
  const auto number = numbers_.find(session);
  return number == numbers_.end() ? nullptr : &reporters_[number->second];
}

// ---- reports -----------------------------------------------------------------------------------

Result<Reported> CollectiveActivity::report(const SessionId& session, const Activity& activity,
                                            TimePoint now) {
  if (Result<void> good = check_values(activity); !good) return good.error();
  if (Result<void> good = check(find(session), activity); !good) return good.error();
  Reported found;
  if (find(session) == nullptr && activity.opened.empty()) return found;
  const std::uint32_t number = number_of(session);
  for (const OpenedGroup& opened : activity.opened) open(number, opened, now);
  for (const GroupActivity& told : activity.groups) {
    tell(*reporters_[number].place_in(told.process_group), told, now, found);
  }
  for (const EndedCollective& told : activity.ended) {
    tell_ended(*reporters_[number].place_in(told.process_group), told, found);
  }
  for (const GroupActivity& told : activity.groups) {
    const bool blocked = std::ranges::count(activity.blocked_groups, told.process_group) > 0;
    tell_blocked(*reporters_[number].place_in(told.process_group), blocked, found);
  }
  found.refresh = found.refresh || reporters_[number].blocked != activity.blocked;
  reporters_[number].blocked = activity.blocked;
  reporters_[number].reported = now;
  for (const std::uint64_t process_group : activity.closed) {
    if (reporters_[number].place_in(process_group) == nullptr) continue;
    found.refresh = true;
    close(number, process_group);
  }
  leave(number);
  return found;
}

std::uint32_t CollectiveActivity::number_of(const SessionId& session) {
  const auto known = numbers_.find(session);
  if (known != numbers_.end()) return known->second;
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(reporters_.size()));
    reporters_.emplace_back();
  }
  const std::uint32_t number = free_.back();
  free_.pop_back();
  reporters_[number].session = session;
  numbers_.emplace(session, number);
  return number;
}

void CollectiveActivity::open(std::uint32_t number, const OpenedGroup& opened, TimePoint now) {
  const Session* const session = sessions_.find(reporters_[number].session);
  const AccountRef account = session == nullptr ? nullptr : session->account();
  auto entry = groups_.find(opened.process_group);
  if (entry == groups_.end()) {
    std::string name =
        opened.name.empty() ? "a process group" : format("group \"{}\"", opened.name);
    ActivityGroup made{.name = std::move(name), .ranks = RankTable(opened.size), .opened = now};
    entry = groups_.emplace(opened.process_group, std::move(made)).first;
    entry->second.charge = Charge(account, ActivityGroup::memory_of(opened.size));
    ranks_ += opened.size;
  }
  ActivityGroup& group = entry->second;
  group.ranks.make_part(opened.rank, account);
  RankActivity& rank = group.ranks.take(opened.rank);
  if (rank.state == RankActivity::State::open && rank.reporter == number) return;
  Reporter& reporter = reporters_[number];
  reporter.job_rank = planted(Planted::rank_of_group_told) ? opened.rank : opened.job_rank;
  ++reporter.entries;  // first, because it may be the one that is vacated
  vacate(opened.process_group, group, opened.rank);
  rank.state = RankActivity::State::open;
  rank.reporter = number;
  rank.job_rank = opened.job_rank;
  ++group.open;
  const std::size_t places = reporter.open.size();
  if (places == reporter.open.capacity()) reporter.open.reserve(places + places / 8 + 1);
  const auto at =
      std::ranges::lower_bound(reporter.open, opened.process_group, {}, &OpenPlace::process_group);
  reporter.open.insert(at, {opened.process_group, opened.rank, &group,
                            Charge(account, OpenPlace::kBytes + opened.name.size())});
}

void CollectiveActivity::tell(const OpenPlace& place, const GroupActivity& told, TimePoint now,
                              Reported& found) {
  ActivityGroup& group = *place.group;
  RankActivity& known = group.ranks.take(place.rank);
  tell_oldest(group, known.collective, oldest_of(told, true), now, found);
  tell_oldest(group, known.message, oldest_of(told, false), now, found);
  const auto ended = [](const OperationCounts& counts) {
    return counts.issued - counts.unfinished;
  };
  if (ended(known.collectives) != ended(told.collectives)) {
    known.ended_at = reporters_[known.reporter].went_on = now;
  }
  known.collectives = told.collectives;
  known.messages = told.messages;
  known.reported = now;
  if (group.old > 0) {
    busy_.insert(told.process_group);
  } else {
    busy_.erase(told.process_group);
  }
  group.issued.note(place.rank, told.collectives.issued);
  if (group.size() == 1 || (told.hash_marks.empty() && told.time_marks.empty())) return;
  if (group.open < (group.size() + 1) / 2) return;  // marks are compared when all have come
  if (!group.marks) group.marks = std::make_unique<GroupMarks>(group.size());
  // The marks of a rank that says it is far ahead of all others would take the place of theirs.
  const std::uint64_t limit = group.issued.of_others(place.rank) + kAhead;
  group.marks->add(place.rank, up_to(limit, told.hash_marks), up_to(limit, told.time_marks), now);
  if (group.marks->deviates()) {
    deviating_.insert(told.process_group);
    found.look_at = std::min(found.look_at.value_or(now), now);
  } else {
    deviating_.erase(told.process_group);
  }
}

void CollectiveActivity::tell_ended(const OpenPlace& place, const EndedCollective& told,
                                    Reported& found) {
  ActivityGroup& group = *place.group;
  RankActivity& known = group.ranks.take(place.rank);
  const OperationTexts::Text* const text = group.texts.take(told.name, told.arguments);
  clear_last(group, known);
  known.last_sequence = told.sequence;
  known.last = text;
  found.refresh = found.refresh || group.old > 0;
}

void CollectiveActivity::tell_blocked(const OpenPlace& place, bool blocked, Reported& found) {
  RankActivity& known = place.group->ranks.take(place.rank);
  found.refresh = found.refresh || known.blocked != blocked;
  known.blocked = blocked;
}

// ---- ends --------------------------------------------------------------------------------------

/// Notes that a session has closed a group, or has ended. What it had not finished stays known.
void CollectiveActivity::close(std::uint32_t number, std::uint64_t process_group) {
  std::vector<OpenPlace>& open = reporters_[number].open;
  const auto place = std::ranges::find(open, process_group, &OpenPlace::process_group);
  ActivityGroup& group = *place->group;
  RankActivity& rank = group.ranks.take(place->rank);
  open.erase(place);
  rank.state = RankActivity::State::closed;
  stop_being_old(group, rank.collective);
  stop_being_old(group, rank.message);
  if (group.old == 0) busy_.erase(process_group);
  if (planted(Planted::closed_counts)) return;
  if (--group.open == 0) forget(process_group);
}

void CollectiveActivity::end(const SessionId& session, Ending ending) {
  const auto known = numbers_.find(session);
  if (known == numbers_.end()) return;
  const std::uint32_t number = known->second;
  Reporter& reporter = reporters_[number];
  const Session& of = *sessions_.find(session);
  reporter.last = facts_of_ended(of, ending);
  if (of.rank >= 0) reporter.last.rank = static_cast<Rank>(of.rank);
  reporter.ended = true;
  numbers_.erase(known);
  while (!reporter.open.empty()) close(number, reporter.open.back().process_group);
  leave(number);
}

/// Makes a rank one that nobody has opened.
void CollectiveActivity::vacate(std::uint64_t process_group, ActivityGroup& group, Rank rank) {
  if (group.ranks[rank].state == RankActivity::State::absent) return;
  RankActivity& known = group.ranks.take(rank);
  clear(group, known.collective);
  clear(group, known.message);
  clear_last(group, known);
  if (group.old == 0) busy_.erase(process_group);
  if (group.marks) group.marks->forget(rank);
  const std::uint32_t number = known.reporter;
  if (known.state == RankActivity::State::open) {
    --group.open;
    std::erase_if(reporters_[number].open,
                  [&](const OpenPlace& one) { return one.process_group == process_group; });
  }
  known = {};
  --reporters_[number].entries;
  leave(number);
}

void CollectiveActivity::forget(std::uint64_t process_group) {
  const auto found = groups_.find(process_group);
  for (const RankActivity& rank : found->second.ranks) {
    if (rank.state == RankActivity::State::absent) continue;
    --reporters_[rank.reporter].entries;
    leave(rank.reporter);
  }
  ranks_ -= found->second.size();
  busy_.erase(process_group);
  deviating_.erase(process_group);
  groups_.erase(found);
}

/// Forgets a reporter if no rank refers to it.
void CollectiveActivity::leave(std::uint32_t number) {
  Reporter& reporter = reporters_[number];
  if (reporter.entries > 0 || reporter.session == SessionId{}) return;
  if (!reporter.ended) numbers_.erase(reporter.session);
  reporter = {};
  free_.push_back(number);
}

std::size_t CollectiveActivity::charged() const {
  std::size_t bytes = 0;
  for (const auto& [process_group, group] : groups_) {
    bytes += group.charge.bytes() + group.ranks.charged();
  }
  for (const Reporter& reporter : reporters_) {
    for (const OpenPlace& open : reporter.open) bytes += open.charge.bytes();
  }
  return bytes;
}

AuditResult CollectiveActivity::audit() const {
  std::size_t ranks = 0;
  std::size_t busy = 0;
  std::vector<std::size_t> entries(reporters_.size());
  for (const auto& [process_group, group] : groups_) {
    std::size_t open = 0;
    std::size_t old = 0;
    for (const RankActivity& rank : group.ranks) {
      if (rank.state == RankActivity::State::open) ++open;
      if (rank.state != RankActivity::State::absent) ++entries[rank.reporter];
      old += std::size_t{rank.collective.old} + std::size_t{rank.message.old};
    }
    ranks += group.size();
    if (old > 0) busy += busy_.count(process_group);
    AuditResult wrong = first_difference({differ("open ranks of a process group", group.open, open),
                                          differ("old operations of a group", group.old, old)});
    if (wrong) return wrong;
  }
  std::size_t used = 0;
  std::size_t ended = 0;
  for (std::size_t number = 0; number < reporters_.size(); ++number) {
    AuditResult wrong = differ("ranks of a reporter", reporters_[number].entries, entries[number]);
    if (wrong) return wrong;
    if (entries[number] > 0) ++used;
    if (entries[number] > 0 && reporters_[number].ended) ++ended;
  }
  return first_difference(
      {differ("ranks of process groups", ranks_, ranks),
       differ("groups with old operations", busy_.size(), busy),
       differ("sessions that report", numbers_.size(), used - ended),
       differ("free places of reporters", free_.size(), reporters_.size() - used)});
}

}  // namespace c10dd::core
