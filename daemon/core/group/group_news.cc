// SPDX-License-Identifier: Apache-2.0
// What members are told and what they report: places, lists, news, notices, progress.
#include <algorithm>

#include "daemon/core/group/group.h"
#include "daemon/core/missing.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd::core {
namespace {

constexpr std::size_t kPageMembers = 1'024;
constexpr std::size_t kDescribed = 8;  // members in one text

std::vector<RankRange> ranges(std::vector<Rank> ranks) {
  std::ranges::sort(ranks);
  return ranges_of(ranks);
}

MissingRank unknown(Rank rank) {
  MissingRank about;
  about.rank = rank;
  return about;
}

}  // namespace

std::optional<Joined> Group::place(const SessionId& id, std::uint64_t after_round) const {
  const GroupMember* m = find(id);
  if (m == nullptr || m->rank < 0 || m->state != GroupMember::State::here || asks(*m) ||
      facts_.round <= after_round) {
    return std::nullopt;
  }
  Joined joined;
  joined.round = facts_.round;
  joined.generation = facts_.generation;
  joined.rank = static_cast<Rank>(m->rank);
  joined.size = size();
  joined.digest = list_->digest;
  joined.failures = facts_.failures;
  joined.reason = facts_.reason;
  joined.news = facts_.news;
  return joined;
}

bool Group::waits(const SessionId& id) const {
  const GroupMember* m = find(id);
  return m != nullptr && m->state == GroupMember::State::here && asks(*m);
}

Result<MemberPage> Group::page(const ReadMembers& request) const {
  if (request.generation != 0 && request.generation != facts_.generation) {
    return stale(request.generation);
  }
  if (request.first >= size()) {
    return failure(Code::invalid_argument,
                   "members of group \"" + printable(name_, limits::kNameBytes) + "\" from rank " +
                       std::to_string(request.first) + " on: it has " + std::to_string(size()));
  }
  MemberPage page;
  page.generation = facts_.generation;
  page.size = size();
  page.digest = list_->digest;
  page.first = request.first;
  const std::size_t end = std::min<std::size_t>(request.first + kPageMembers, size());
  page.count = static_cast<std::uint32_t>(end - request.first);
  const std::size_t from = list_->offsets[request.first];
  const std::size_t to = end == size() ? encoded_->size() : list_->offsets[end];
  page.list = {encoded_, from, to - from};
  return page;
}

Failure Group::stale(std::uint64_t generation) const {
  return failure(Code::stale_generation, "generation " + std::to_string(generation) +
                                             " of group \"" + printable(name_, limits::kNameBytes) +
                                             "\" is not the newest: that is " +
                                             std::to_string(facts_.generation) + "; join again");
}

Failure Group::broken() const {
  Failure reason = failure(
      Code::aborted, "generation " + std::to_string(facts_.generation) + " of group \"" +
                         printable(name_, limits::kNameBytes) + "\" has ended: " + facts_.reason);
  reason.missing = make_news().details;
  return reason;
}

// ---- news --------------------------------------------------------------------------------------

const GroupMember* Group::holder(Rank rank) const {
  const GroupMember* m = rank < size() ? find(list_->sessions[rank]) : nullptr;
  return m != nullptr && m->rank == static_cast<std::int64_t>(rank) ? m : nullptr;
}

MissingRank Group::describe(Rank rank) const {
  MissingRank about = unknown(rank);
  const GroupMember* m = holder(rank);
  if (m == nullptr) return about;
  about.host = m->host;
  about.pid = m->pid;
  about.cause = MissingRank::Cause::not_arrived;
  if (!m->present) about.cause = MissingRank::Cause::disconnected;
  about.doing = m->phase.empty() ? "" : m->phase + " of step " + std::to_string(m->at_step);
  if (m->state != GroupMember::State::here) {
    about.cause = MissingRank::Cause::dead;
    about.doing = m->ending;
  }
  return about;
}

const GroupNews& Group::news(TimePoint now) const {
  if (!newest_news_) newest_news_ = make_news();
  for (Notice& notice : newest_news_->notices) {
    const auto end = notices_end_.find(notice.number);
    if (end != notices_end_.end()) notice.left = std::max(end->second - now, Duration(1));
  }
  return *newest_news_;
}

GroupNews Group::make_news() const {
  GroupNews news;
  news.number = facts_.news;
  news.round = facts_.round;
  news.generation = facts_.generation;
  news.size = size();
  news.phase = facts_.phase;
  news.reason = facts_.reason;
  std::vector<Rank> gone;
  std::vector<Rank> finished;
  std::vector<Rank> stalled;
  for (Rank rank = 0; rank < size(); ++rank) {
    const GroupMember* m = holder(rank);
    const bool here = m != nullptr && m->state == GroupMember::State::here;
    if (here && !m->stalled) continue;
    const GroupMember* known = find(list_->sessions[rank]);
    const bool done = m == nullptr ? known != nullptr && known->former_rank >= 0
                                   : m->state == GroupMember::State::finished;
    (done ? finished : here ? stalled : gone).push_back(rank);
    if (!done && news.details.size() < limits::kMissingNamed) {
      news.details.push_back(describe(rank));
    }
  }
  news.lost = ranges(gone);
  news.finished = ranges(finished);
  news.stalled = ranges(stalled);
  news.waiting = waiting();
  add_notices(news);
  return news;
}

void Group::add_notices(GroupNews& news) const {
  if (facts_.notices.empty()) return;
  std::map<std::uint64_t, std::pair<std::vector<Rank>, std::vector<Rank>>> ranks;
  for (Rank rank = 0; rank < size(); ++rank) {
    const GroupMember* m = holder(rank);
    if (m == nullptr) continue;
    for (const NoticeMark& mark : m->notices) {
      auto& [named, acknowledged] = ranks[mark.number];
      named.push_back(rank);
      if (mark.acknowledged) acknowledged.push_back(rank);
    }
  }
  for (const StoredNotice& stored : facts_.notices) {
    auto& [named, acknowledged] = ranks[stored.number];
    news.notices.push_back({stored.number, stored.kind, ranges(std::move(named)), Duration{0},
                            stored.reason, ranges(std::move(acknowledged))});
  }
}

Failure Group::shortage() const {
  const RendezvousPolicy& policy = facts_.policy;
  std::string text = std::to_string(usable()) + " of at least " + std::to_string(policy.min) +
                     " members have joined";
  std::size_t shown = 0;
  for (const auto& [id, m] : members_) {
    if (shown == kDescribed) break;
    if (m.state != GroupMember::State::here || !asks(m)) continue;
    text += (shown++ == 0 ? " (" : ", ") + printable(m.host, limits::kNameBytes) + ":" +
            std::to_string(m.pid) + (m.spare ? " (spare)" : "");
  }
  if (shown > 0) text += counts_.asking > shown ? ", ...)" : ")";
  Failure result = failure(Code::timed_out, std::move(text));
  if (facts_.phase == GroupPhase::formed) {
    result.detail += "; generation " + std::to_string(facts_.generation) + " has " +
                     std::to_string(size()) + " members at work, max is " +
                     std::to_string(policy.max) + ": a newcomer gets in when they join again";
  } else if (facts_.phase == GroupPhase::finished) {
    result.detail += "; generation " + std::to_string(facts_.generation) +
                     " has finished its work: the next forms when another member joins";
  }
  for (const Rank rank : awaited()) {
    result.missing.push_back(counts_.claims > 0 ? unknown(rank) : describe(rank));
    if (result.missing.size() <= kDescribed) {
      result.detail += "; " + sentence(result.missing.back());
    }
  }
  if (!result.missing.empty() || facts_.phase == GroupPhase::formed) return result;
  // Nobody has a rank yet: so many more would make the smallest generation.
  for (std::size_t rank = usable();
       rank < policy.min && result.missing.size() < limits::kMissingNamed; ++rank) {
    result.missing.push_back(unknown(static_cast<Rank>(rank)));
  }
  return result;
}

/// The ranks whose join would be needed, as many as are named: those that nobody claims, or those
/// of a broken generation that have not come again.
std::vector<Rank> Group::awaited() const {
  std::vector<bool> here(counts_.claims > 0                   ? facts_.policy.max
                         : facts_.phase == GroupPhase::broken ? size()
                                                              : 0);
  for (const auto& [id, m] : members_) {
    const std::int64_t rank = counts_.claims > 0 ? m.claimed_rank : m.rank;
    if (asks(m) && rank >= 0 && static_cast<std::size_t>(rank) < here.size()) {
      here[static_cast<std::size_t>(rank)] = true;
    }
  }
  std::vector<Rank> missing;
  for (Rank rank = 0; rank < here.size() && missing.size() < limits::kMissingNamed; ++rank) {
    if (!here[rank]) missing.push_back(rank);
  }
  return missing;
}

// ---- notices and progress ----------------------------------------------------------------------

Result<std::uint64_t> Group::notify(const Notify& request, Moment& at) {
  std::vector<Rank> asked = request.ranks;
  std::ranges::sort(asked);
  std::vector<SessionId> named;
  for (Rank rank = 0; rank < size(); ++rank) {
    const GroupMember* m = find(list_->sessions[rank]);
    if (m == nullptr || m->state != GroupMember::State::here) continue;
    const bool meant = std::ranges::binary_search(asked, rank) ||
                       (!request.host.empty() && m->host == request.host);
    if (meant) named.push_back(list_->sessions[rank]);
  }
  if (named.empty()) {
    return failure(Code::not_found, "notify: no member of group \"" +
                                        printable(name_, limits::kNameBytes) + "\" has rank " +
                                        fold(request.ranks) + " or host \"" +
                                        printable(request.host, limits::kNameBytes) +
                                        "\"; its generation " + std::to_string(facts_.generation) +
                                        " has " + std::to_string(size()) + " members");
  }
  if (facts_.notices.size() >= limits::kNotices) {
    return failure(Code::quota_exceeded, "notify: too many notices in the group, limit " +
                                             std::to_string(limits::kNotices));
  }
  StoredNotice notice;
  notice.number = ++facts_.notices_made;
  notice.kind = request.kind;
  notice.deadline = std::clamp<Duration>(request.deadline, Duration::zero(), limits::kTimeoutMax);
  notice.reason = printable(request.reason.substr(0, limits::kReasonBytes), limits::kReasonBytes);
  notice.named = notice.open = named.size();
  if (notice.deadline > Duration::zero()) {
    notices_end_[notice.number] = at.now + notice.deadline;
  }
  facts_.notices.push_back(notice);
  for (const SessionId& id : named) {
    GroupMember& m = members_.at(id);
    m.notices.push_back({notice.number, false});
    put(id, m, at);
  }
  tell(at);
  return notice.number;
}

Result<void> Group::acknowledge(const SessionId& id, std::uint64_t number, Moment& at) {
  const auto member = members_.find(id);
  const auto notice = std::ranges::find(facts_.notices, number, &StoredNotice::number);
  const auto named = [&](GroupMember& m) {
    return std::ranges::find(m.notices, number, &NoticeMark::number);
  };
  if (notice == facts_.notices.end() || member == members_.end() ||
      named(member->second) == member->second.notices.end()) {
    return failure(Code::not_found, "notice " + std::to_string(number) + " of group \"" +
                                        printable(name_, limits::kNameBytes) +
                                        "\" does not name this member");
  }
  if (std::exchange(named(member->second)->acknowledged, true)) return {};
  put(id, member->second, at);
  // News once all have: telling everybody of each would be a message for every pair of members.
  if (--notice->open == 0) {
    tell(at);
  } else {
    changed_ = at.revision;
    newest_news_.reset();
  }
  return {};
}

/// Whoever ends is named no more; the caller writes its row.
void Group::forget_noticed(GroupMember& member) {
  for (const NoticeMark& mark : std::exchange(member.notices, {})) {
    const auto notice = std::ranges::find(facts_.notices, mark.number, &StoredNotice::number);
    if (!mark.acknowledged) --notice->open;
    if (--notice->named > 0) continue;
    notices_end_.erase(mark.number);
    facts_.notices.erase(notice);
  }
}

void Group::end_notices(Moment& at) {
  while (!notices_end_.empty()) {
    const auto due = std::ranges::find_if(
        notices_end_, [&](const auto& entry) { return entry.second <= at.now; });
    if (due == notices_end_.end()) return;
    const StoredNotice over = *std::ranges::find(facts_.notices, due->first, &StoredNotice::number);
    notices_end_.erase(due);
    std::vector<std::pair<std::int64_t, SessionId>> named;
    for (const auto& [id, m] : members_) {
      if (std::ranges::count(m.notices, over.number, &NoticeMark::number) > 0) {
        named.emplace_back(m.rank, id);
      }
    }
    std::ranges::sort(named);
    for (const auto& [rank, id] : named) {
      lose(id, "asked to leave (" + over.reason + "), it had not after " + human(over.deadline),
           at);
    }
  }
}

Result<void> Group::progress(const SessionId& id, const Progress& report, Moment& at) {
  if (report.generation != facts_.generation) return stale(report.generation);
  const auto it = members_.find(id);
  if (it == members_.end() || it->second.rank < 0 || it->second.state != GroupMember::State::here) {
    return stale(report.generation);
  }
  GroupMember& m = it->second;
  m.phase = printable(report.phase.substr(0, limits::kNameBytes), limits::kNameBytes);
  m.at_step = report.step;
  if (m.stalls_at) stall_times_.erase({*m.stalls_at, id});
  m.stalls_at.reset();
  if (report.limit > Duration::zero()) {
    m.stalls_at = at.now + std::min<Duration>(report.limit, limits::kTimeoutMax);
    stall_times_.emplace(*m.stalls_at, id);
  }
  if (std::exchange(m.stalled, false)) tell(at);
  return {};
}

void Group::mark_stalled(Moment& at) {
  while (!stall_times_.empty() && stall_times_.begin()->first <= at.now) {
    const SessionId id = stall_times_.begin()->second;
    stall_times_.erase(stall_times_.begin());
    GroupMember& m = members_.at(id);
    m.stalls_at.reset();
    m.stalled = true;
    newly_stalled.push_back(static_cast<Rank>(m.rank));
    tell(at);
  }
}

}  // namespace c10dd::core
