// SPDX-License-Identifier: Apache-2.0
// A generation has one member list, for all members and for good. Durable rows are checked against
// the rules by which generations form, and replies against the durable rows.
#include <algorithm>
#include <set>

#include "protocol/fields.h"
#include "tests/sim/group_log.h"
#include "tests/sim/oracles.h"

namespace c10dd::sim {
namespace {

Violation bad(const char* oracle, const std::string& text) { return Violation{oracle, text}; }

std::string name_of(const Formation& f) {
  return "revision " + std::to_string(f.revision) + ", round " + std::to_string(f.round) +
         ", generation " + std::to_string(f.generation) + " of " +
         std::to_string(f.sessions.size());
}

// ---- what is durable ---------------------------------------------------------------------------

/// Returns true if all members of the list before have asked again: then a quorum needs no
/// majority.
bool all_again(const Formation& before, const Formation& f) {
  return !before.sessions.empty() &&
         std::ranges::all_of(before.sessions, [&](const SessionId& session) {
           return std::ranges::count(f.sessions, session) > 0;
         });
}

OptionalViolation judge_size(const Formation& f, const Formation* before) {
  const std::set<SessionId> distinct(f.sessions.begin(), f.sessions.end());
  if (distinct.size() != f.sessions.size()) {
    return bad("generations", name_of(f) + ": a session has two ranks");
  }
  if (f.sessions.size() < f.policy.min || f.sessions.size() > f.policy.max) {
    return bad("generations", name_of(f) + ": min is " + std::to_string(f.policy.min) + ", max " +
                                  std::to_string(f.policy.max));
  }
  const bool most = f.asking * 2 > f.living;
  if (f.policy.quorum && !most && !(before != nullptr && all_again(*before, f))) {
    return bad("quorum", name_of(f) + ": " + std::to_string(f.asking) + " of " +
                             std::to_string(f.living) + " living have asked");
  }
  return std::nullopt;
}

OptionalViolation judge_successor(const Formation& before, const Formation& f) {
  if (f.round <= before.round) return bad("generations", name_of(f) + ": a round of before");
  if (f.generation == before.generation) {
    if (!f.unbroken) return bad("generations", name_of(f) + ": this generation was over");
    const bool same = f.sessions == before.sessions && f.digest == before.digest;
    if (f.policy.quorum && same) return std::nullopt;
    return bad("generations", name_of(f) + ": another list had this number");
  }
  if (f.generation < before.generation) {
    return bad("generations",
               name_of(f) + ": after generation " + std::to_string(before.generation));
  }
  for (std::size_t rank = 0; rank < std::min(before.sessions.size(), f.sessions.size()); ++rank) {
    const SessionId& session = before.sessions[rank];
    if (f.sessions[rank] == session || std::ranges::count(f.sessions, session) == 0) continue;
    return bad("ranks", name_of(f) + ": who had rank " + std::to_string(rank) + " has another");
  }
  return std::nullopt;
}

OptionalViolation judge_formations(const GroupHistory& history) {
  const Formation* before = nullptr;
  for (const Formation& f : history.formations) {
    if (auto wrong = judge_size(f, before)) return wrong;
    if (auto wrong = before == nullptr ? std::nullopt : judge_successor(*before, f)) return wrong;
    before = &f;
  }
  for (const BoundArrival& a : history.arrivals) {
    if (a.generation == a.newest && a.works && a.own_place) continue;
    return bad("stale", "revision " + std::to_string(a.revision) + ": rank " +
                            std::to_string(a.place) + " of generation " +
                            std::to_string(a.generation) + " came to a barrier; the newest is " +
                            std::to_string(a.newest) + (a.works ? ", formed" : ", over") +
                            (a.own_place ? "" : ", and its session has not this rank"));
  }
  return std::nullopt;
}

// ---- replies -----------------------------------------------------------------------------------

/// Returns the revision of the group's status in a reply; 0 if it has none.
struct Standing {
  std::uint64_t round = 0;
  std::uint64_t generation = 0;
  std::uint64_t status = 0;
};

std::optional<Standing> standing_in(const Op& op) {
  if (!op.good()) return std::nullopt;
  if (const auto* j = std::get_if<Joined>(&**op.reply)) {
    return Standing{j->round, j->generation, j->status};
  }
  if (const auto* n = std::get_if<GroupStatus>(&**op.reply)) {
    return Standing{n->round, n->generation, n->number};
  }
  if (const auto* p = std::get_if<MemberPage>(&**op.reply)) return Standing{0, p->generation, 0};
  return std::nullopt;
}

const std::string& group_of(const Request& request) {
  static const std::string none;
  if (const auto* join = std::get_if<Join>(&request)) return join->group;
  if (const auto* watch = std::get_if<WatchGroup>(&request)) return watch->group;
  if (const auto* read = std::get_if<ReadMembers>(&request)) return read->group;
  return none;
}

OptionalViolation judge_joined(const GroupHistory& history, const Op& op, const Joined& told) {
  for (const Formation& f : history.formations) {
    if (f.round != told.round || f.durable >= op.answered) continue;
    const bool same = f.generation == told.generation && f.sessions.size() == told.size &&
                      f.digest == told.digest;
    if (!same) return bad("generations", describe(op) + ": durable is " + name_of(f));
    if (told.rank < told.size && f.sessions[told.rank] == op.session) return std::nullopt;
    return bad("generations", describe(op) + ": the list has another session at this rank");
  }
  return bad("generations", describe(op) + ": this decision is not durable");
}

OptionalViolation judge_page(const Records& records, const GroupHistory& history, const Op& op,
                             const MemberPage& told) {
  const Formation* f = history.list_of(told.generation, op.answered);
  const std::uint64_t asked = std::get<ReadMembers>(op.request).generation;
  const bool fits = f != nullptr && f->sessions.size() == told.size && f->digest == told.digest &&
                    (asked == 0 || asked == told.generation) &&
                    told.first + told.count == told.size;
  if (!fits) return bad("generations", describe(op) + ": the durable list is another");
  wire::Reader reader(told.list.view());
  for (Rank rank = told.first; rank < told.size; ++rank) {
    MemberInfo info;
    reader.get(info);
    const auto who = records.sessions.find(f->sessions[rank]);
    const bool right = reader.ok() && info.rank == rank && who != records.sessions.end() &&
                       info.pid == who->second.client;
    if (!right) return bad("generations", describe(op) + ": wrong at rank " + std::to_string(rank));
  }
  return std::nullopt;
}

OptionalViolation judge_told(const Records& records, const GroupHistory& history, const Op& op) {
  if (const auto* joined = std::get_if<Joined>(&**op.reply)) {
    return judge_joined(history, op, *joined);
  }
  if (const auto* page = std::get_if<MemberPage>(&**op.reply)) {
    return judge_page(records, history, op, *page);
  }
  const auto& status = std::get<GroupStatus>(**op.reply);
  if (status.generation == 0 && status.size == 0) return std::nullopt;
  const Formation* f = history.list_of(status.generation, op.answered);
  if (f != nullptr && f->sessions.size() == status.size) return std::nullopt;
  return bad("generations", describe(op) + ": no such list is durable");
}

/// Checks that no later request gets an older status than an earlier one has got.
OptionalViolation judge_order(const std::vector<const Op*>& ops) {
  std::vector<std::pair<std::uint64_t, const Op*>> told;
  for (const Op* op : ops) told.emplace_back(op->answered, op);
  std::ranges::sort(told);
  std::vector<Standing> newest;
  for (const auto& [order, op] : told) {
    Standing most = newest.empty() ? Standing{} : newest.back();
    const Standing here = *standing_in(*op);
    most = {std::max(most.round, here.round), std::max(most.generation, here.generation),
            std::max(most.status, here.status)};
    newest.push_back(most);
  }
  for (const Op* op : ops) {
    const auto it = std::ranges::lower_bound(told, std::pair(op->invoked, (const Op*)nullptr));
    if (it == told.begin()) continue;
    const Standing& least = newest[static_cast<std::size_t>(it - told.begin()) - 1];
    const Standing here = *standing_in(*op);
    const bool page = std::holds_alternative<ReadMembers>(op->request);
    const bool back = here.generation < least.generation ||
                      (!page && (here.round < least.round || here.status < least.status));
    if (back) {
      return bad("generations", describe(*op) + ": before it, somebody was told generation " +
                                    std::to_string(least.generation) + ", round " +
                                    std::to_string(least.round) + ", news " +
                                    std::to_string(least.status));
    }
  }
  return std::nullopt;
}

}  // namespace

OptionalViolation judge_generations(const Records& records) {
  for (const auto& [job, number] : records.jobs) {
    const GroupLog log(records.log(number));
    std::map<std::string, std::vector<const Op*>> told;
    for (const auto& [group, history] : log.groups()) {
      if (auto wrong = judge_formations(history)) return wrong;
    }
    for (const Op& op : records.ops) {
      if (op.job != job || !standing_in(op)) continue;
      const std::string& group = group_of(op.request);
      told[group].push_back(&op);
      if (auto wrong = judge_told(records, log.of(group), op)) return wrong;
    }
    for (const auto& [group, ops] : told) {
      if (auto wrong = judge_order(ops)) return wrong;
    }
  }
  return std::nullopt;
}

}  // namespace c10dd::sim
