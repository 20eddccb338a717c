// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/reports/collective_waits.h"

#include <algorithm>
#include <map>
#include <utility>

#include "daemon/core/planted.h"
#include "protocol/format.h"

namespace c10dd::core {
namespace {

std::string call_of(const OperationTexts::Text& text) {
  return text.arguments.empty() ? text.name : text.name + " " + text.arguments;
}

/// Returns whether ranks may end such an operation before all have come: all need the root, or the
/// root needs all.
bool is_rooted(const std::string& name) {
  return name == "broadcast" || name == "reduce" || name == "gather" || name == "scatter";
}

/// Returns whether all ranks that have the group open have finished all collectives below `to`.
bool have_gone_on(const ActivityGroup& group, std::uint64_t to) {
  return std::ranges::all_of(group.ranks, [&](const RankActivity& rank) {
    return rank.state != RankActivity::State::open || rank.ended() >= to;
  });
}

}  // namespace

CollectiveWaits::CollectiveWaits(const WaitSources& of, WaitForList& list, std::uint32_t job_size,
                                 const std::set<std::uint64_t>& overdue)
    : of_(of),
      list_(list),
      now_(of.everybody.now),
      job_size_(job_size),
      overdue_(overdue),
      processes_(of.activity.reporters()) {}

void CollectiveWaits::add_all() {
  if (!of_.activity.busy().empty()) list_.known().reserve(of_.activity.reporters());
  for (const std::uint64_t process_group : of_.activity.busy()) {
    if (list_.full()) return;
    add(process_group, of_.activity.groups().at(process_group));
  }
}

void CollectiveWaits::add_group(std::uint64_t process_group) {
  const auto found = of_.activity.groups().find(process_group);
  if (found == of_.activity.groups().end()) return;
  any_age_ = true;
  add(process_group, found->second);
}

void CollectiveWaits::add(std::uint64_t process_group, const ActivityGroup& group) {
  in_order_.reset();
  settled_ = true;
  add_collectives(process_group, group);
  add_messages(process_group, group);
  if (!settled_) unsettled_.push_back(process_group);
}

/// Adds a wait-for. While its group is unsettled, it tells only which ranks wait.
void CollectiveWaits::add_wait(WaitFor one) {
  if (!settled_ && !is_overdue(one.process_group)) {
    one.uncertain = true;
    one.unsent = false;
    one.unnamed = one.ended = 0;
    one.awaited.clear();
    one.held.clear();
    one.issued.clear();
    one.queued.clear();
  }
  list_.add(std::move(one));
}

std::string CollectiveWaits::operation_text(const std::string& name, std::string_view otherwise,
                                            std::uint64_t sequence, const std::string& group) {
  return format("{} {} of {}", name.empty() ? otherwise : name, sequence, group);
}

// ---- ranks -------------------------------------------------------------------------------------

const CollectiveWaits::Process& CollectiveWaits::process_of(std::uint32_t number) {
  Process& process = processes_[number];
  if (process.place) return process;
  KnownRanks& known = list_.known();
  const Reporter& reporter = of_.activity.reporter(number);
  if (reporter.ended) {
    RankFacts facts = reporter.last;
    if (!facts.rank) facts.rank = reporter.job_rank;
    process.place = known.add(std::move(facts));
  } else {
    const Session& session = *of_.everybody.sessions.find(reporter.session);
    process.place = known.of_reporter(reporter.session, session, reporter.job_rank);
    process.connected_at = session.connected_at;
    process.fresh = now_ - reporter.reported <= kFresh;
    const bool blocked = reporter.blocked && !planted(Planted::blocked_untold);
    if (blocked && process.fresh) known.set_blocked(*process.place);
  }
  process.lost = list_.facts(*process.place).is_lost();
  return process;
}

/// Returns whether a rank is still in its oldest operation.
bool CollectiveWaits::waits(const RankActivity& rank, const OldestOperation& oldest) const {
  if (!oldest.exists() || rank.state != RankActivity::State::open) return false;
  const Duration ago = now_ - rank.reported;
  return ago > kSettled || (ago <= kFresh && (oldest.old || any_age_));
}

/// Returns whether a rank has connected and has not reported since, so that its numbers are those
/// of an earlier connection.
bool CollectiveWaits::is_unknown(const RankActivity& rank, const Process& process) const {
  return !process.lost && rank.state == RankActivity::State::open &&
         rank.reported < process.connected_at && now_ - process.connected_at < kReported;
}

CollectiveWaits::Standing CollectiveWaits::standing(const RankActivity& rank) {
  using Is = Standing::Is;
  if (rank.state == RankActivity::State::absent) return {};
  const Process& process = process_of(rank);
  Standing found{Is::behind, rank.ended(), *process.place};
  found.blocked = (rank.blocked && process.fresh) || planted(Planted::threads_ignored);
  found.issued = rank.collectives.issued;
  if (process.lost && !planted(Planted::lost_in_operation)) return found;
  const OldestOperation& oldest = rank.collective;
  if (is_unknown(rank, process)) {
    found.is = Is::unknown;
    return found;
  }
  if (waits(rank, oldest)) {
    found.is = Is::waiting;
    return found;
  }
  const Duration ago = now_ - rank.reported;
  const bool still = rank.state == RankActivity::State::closed || ago > kSettled;
  if (oldest.exists() && !still) {
    found.is = Is::moving;
    if (ago > kFresh) ++found.sequence;  // without a further report, it has ended meanwhile
    return found;
  }
  const std::uint64_t unfinished = oldest.exists() ? 0 : rank.collectives.unfinished;
  if (unfinished > 0 && !still) found.is = Is::moving;
  found.sequence -= unfinished;  // which operation is unfinished was not told
  return found;
}

// ---- collectives -------------------------------------------------------------------------------

void CollectiveWaits::add_collectives(std::uint64_t process_group, const ActivityGroup& group) {
  std::map<std::uint64_t, Level> levels;
  std::vector<std::pair<Rank, Standing>> ahead;  // of the lowest level so far
  std::vector<Standing> others;
  Places absent;
  for (Rank rank = 0; rank < group.size(); ++rank) {
    const RankActivity& known = group.ranks[rank];
    const Standing is = standing(known);
    if (levels.empty() || is.sequence > levels.begin()->first) ahead.emplace_back(rank, is);
    if (is.is == Standing::Is::absent) absent.push_back(rank);
    if (is.is != Standing::Is::waiting) {
      if (is.is != Standing::Is::absent) others.push_back(is);
      continue;
    }
    const auto [at, added] = levels.try_emplace(is.sequence);
    Level& level = at->second;
    const OldestOperation& oldest = known.collective;
    if (added) {
      level.one.since = oldest.since;
      level.one.confirmed = true;
      level.text = oldest.text;
    }
    level.one.waiting.push_back(is.place);
    level.standings.push_back(is);
    level.one.since = std::min(level.one.since, oldest.since);
    level.one.usual = std::max(level.one.usual, oldest.usual);
    level.one.confirmed = level.one.confirmed && oldest.told > 1;
    if (oldest.text != level.text) level.differing.emplace_back(oldest.text, is.place);
    if (!oldest.begun) level.not_begun.push_back(is.place);
  }
  if (levels.empty()) return;
  add_ended(group, ahead, levels);
  add_levels(process_group, group, levels, others, absent);
}

/// Notes what ranks have issued that have ended a collective in which others wait, and whether they
/// have just done so.
void CollectiveWaits::add_ended(const ActivityGroup& group,
                                const std::vector<std::pair<Rank, Standing>>& ahead,
                                std::map<std::uint64_t, Level>& levels) {
  auto& [lowest, first] = *levels.begin();
  for (const auto& [rank, is] : ahead) {
    if (is.is == Standing::Is::absent || is.sequence <= lowest) continue;
    const RankActivity& known = group.ranks[rank];
    first.ends = first.ends || now_ - known.ended_at < kEndTold;
    if (known.last == nullptr) continue;
    const auto level = levels.find(known.last_sequence);
    if (level == levels.end() || is.sequence <= known.last_sequence) continue;
    level->second.ended.emplace_back(known.last, is.place);
  }
}

/// A rank that has not come to several collectives is awaited in the first of them; those who wait
/// in this one are awaited in the next.
void CollectiveWaits::add_levels(std::uint64_t process_group, const ActivityGroup& group,
                                 std::map<std::uint64_t, Level>& levels,
                                 const std::vector<Standing>& others, const Places& absent) {
  const auto first = levels.begin();
  bool moves = false;
  const bool overdue = is_overdue(process_group);
  for (const Standing& other : others) {
    const bool may_be_in = other.is == Standing::Is::moving && other.sequence <= first->first;
    if (other.is == Standing::Is::unknown) settled_ = false;
    if (may_be_in) moves = true;
    const bool vague = other.is == Standing::Is::unknown || may_be_in;
    if (other.is != Standing::Is::behind && !(overdue && vague)) continue;
    const auto level = levels.lower_bound(other.sequence);
    if (level != levels.end()) await(level->second, level->first, other);
  }
  if (!absent.empty()) await_absent(group, absent, first->second.one);
  if (moves && first->second.one.awaited.empty() && absent.empty()) settled_ = false;
  const Level* before = nullptr;
  for (auto& [sequence, level] : levels) {
    WaitFor& one = level.one;
    if (before != nullptr) {
      for (const Standing& rank : before->standings) await(level, sequence, rank);
    }
    before = &level;
    one.process_group = process_group;
    describe(level, sequence, group);
    if (level.ends && one.ended > 0 && one.issued.empty()) settled_ = false;
  }
  for (auto& [sequence, level] : levels) {
    if (planted(Planted::waiting_blamed)) std::swap(level.one.waiting, level.one.awaited);
    add_wait(std::move(level.one));
  }
}

/// Adds a rank for which those wait who are in a collective.
void CollectiveWaits::await(Level& level, std::uint64_t sequence, const Standing& rank) {
  level.one.awaited.push_back(rank.place);
  if (rank.blocked || rank.issued > sequence) level.one.held.push_back(rank.place);
}

void CollectiveWaits::describe(Level& level, std::uint64_t sequence, const ActivityGroup& group) {
  WaitFor& one = level.one;
  one.kind = WaitFor::Kind::collective;
  one.weak = is_rooted(level.text->name);
  for (const auto& ended : level.ended) {
    if (ended.first != level.text) level.differing.push_back(ended);
  }
  bool same_name = true;
  std::map<OperationTexts::Text, Places> calls;
  for (const auto& [text, place] : level.differing) {
    same_name = same_name && text->name == level.text->name;
    calls[*text].push_back(place);
  }
  one.what = operation_text(same_name ? level.text->name : "", "collective", sequence, group.name);
  if (!calls.empty()) {
    Places different;
    for (const auto& [text, place] : level.differing) different.push_back(place);
    std::ranges::sort(different);
    Places& same = calls[*level.text];
    for (const std::size_t place : one.waiting) {
      if (!std::ranges::binary_search(different, place)) same.push_back(place);
    }
    for (const auto& [text, place] : level.ended) {
      if (text == level.text) same.push_back(place);
    }
  }
  for (auto& [text, places] : calls) {
    std::ranges::sort(places);
    one.issued.push_back({call_of(text), std::move(places)});
  }
  const bool complete = one.awaited.empty() && one.unnamed == 0;
  // The others have begun, or have finished it.
  const bool queued = level.not_begun.size() < group.size() && !planted(Planted::queue_ignored);
  if (complete && queued) one.queued = std::move(level.not_begun);
  if (complete) one.ended = group.size() - one.waiting.size();
  std::ranges::sort(one.queued);
}

// ---- deviations --------------------------------------------------------------------------------

std::vector<Deviation> CollectiveWaits::deviations() {
  std::vector<Deviation> all;
  for (const std::uint64_t process_group : of_.activity.deviating()) {
    const ActivityGroup& group = of_.activity.groups().at(process_group);
    // A group whose ranks are all lost is of an earlier launch.
    const bool lives = std::ranges::any_of(group.ranks, [this](const RankActivity& rank) {
      return rank.state == RankActivity::State::open && !process_of(rank).lost;
    });
    if (!lives) continue;
    Deviation one{.group = group.name, .process_group = process_group};
    const auto places = [&](const std::vector<Rank>& ranks) {
      Places found;
      for (const Rank rank : ranks) {
        if (group.ranks[rank].state == RankActivity::State::absent) continue;
        found.push_back(*process_of(group.ranks[rank]).place);
      }
      std::ranges::sort(found);
      return found;
    };
    auto diverged = group.marks->diverged(now_);
    if (planted(Planted::difference_ignored)) diverged.reset();
    if (diverged && have_gone_on(group, diverged->to)) {
      one.from = diverged->from;
      one.to = diverged->to;
      one.since = diverged->since;
      one.ranks = places(diverged->ranks);
      one.others = places(diverged->others);
      all.push_back(one);
    }
    const auto late = group.marks->stragglers(now_);
    if (!late) continue;
    one.kind = Deviation::Kind::straggler;
    one.from = one.to = 0;
    one.since = late->since;
    one.ranks = places(late->ranks);
    std::vector<Rank> others;
    for (Rank rank = 0; rank < group.size(); ++rank) {
      if (!std::ranges::binary_search(late->ranks, rank)) others.push_back(rank);
    }
    one.others = places(others);
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace c10dd::core
