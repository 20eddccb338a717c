// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/group/notices.h"

#include <algorithm>

#include "daemon/core/time_left.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/rank_ranges.h"
#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd::core {
namespace {

/// Of the alive members of the generation, returns those that the request names by rank or host.
std::vector<SessionId> named_by(const Notify& request, const GroupState& group) {
  std::vector<Rank> ranks = request.ranks;
  std::ranges::sort(ranks);
  std::vector<SessionId> named;
  for (Rank rank = 0; rank < group.size(); ++rank) {
    const SessionId& id = group.list().sessions[rank];
    const GroupMember* m = group.find(id);
    if (m == nullptr || !m->is_here()) continue;
    const bool meant = std::ranges::binary_search(ranks, rank) ||
                       (!request.host.empty() && m->host == request.host);
    if (meant) named.push_back(id);
  }
  return named;
}

std::optional<TimePoint> end_of(const StoredNotice& notice, TimePoint now) {
  if (notice.deadline == Duration::zero()) return std::nullopt;
  return now + left_after_load(notice.time_left, notice.deadline);
}

std::optional<TimePoint> note_of(const StoredNotice& notice, std::optional<TimePoint> ends) {
  return ends ? next_note(notice.time_left, notice.deadline, *ends) : std::nullopt;
}

bool names(const GroupMember& member, std::uint64_t number) {
  return std::ranges::find(member.notices, number, &NoticeReceipt::number) != member.notices.end();
}

}  // namespace

Result<std::uint64_t> Notices::notify(GroupState& group, const Notify& request, ChangeContext& at) {
  const std::vector<SessionId> named = named_by(request, group);
  if (named.empty()) {
    return failure(
        Code::not_found,
        "notify: no living member of group \"{}\" has one of the ranks {} or is on host \"{}\"; "
        "generation {} of the group has {} members",
        printable(group.name(), limits::kNameBytes), fold(request.ranks),
        printable(request.host, limits::kNameBytes), group.facts().generation, group.size());
  }
  if (group.facts().notices.size() >= limits::kNotices) {
    return failure(Code::quota_exceeded,
                   "notify: too many notices in the group: {} with this one, limit {}",
                   group.facts().notices.size() + 1, limits::kNotices);
  }
  GroupFacts& facts = group.edit_facts();
  StoredNotice notice;
  notice.number = ++facts.notices_made;
  notice.kind = request.kind;
  notice.deadline = std::clamp<Duration>(request.deadline, Duration::zero(), limits::kTimeoutMax);
  notice.reason = printable(request.reason.substr(0, limits::kReasonBytes), limits::kReasonBytes);
  notice.charge =
      Charge(at.account == nullptr ? nullptr : *at.account, memory_of_notice(named.size()));
  const std::uint64_t number = notice.number;
  const auto ends = end_of(notice, at.now);
  open_[number] = {named.size(), named.size(), ends, note_of(notice, ends)};
  facts.notices.push_back(std::move(notice));
  for (const SessionId& id : named) {
    group.change(id, [&](GroupMember& m) { m.notices.push_back({number, false}); });
    group.put(id, at);
  }
  group.note_status_change(at);
  return number;
}

Result<void> Notices::acknowledge(GroupState& group, const SessionId& id, std::uint64_t number,
                                  ChangeContext& at) {
  const GroupMember* member = group.find(id);
  if (member == nullptr || !names(*member, number)) {
    return failure(Code::not_found, "notice {} of group \"{}\" does not name this member", number,
                   printable(group.name(), limits::kNameBytes));
  }
  bool repeated = false;
  group.change(id, [&](GroupMember& m) {
    NoticeReceipt& receipt = *std::ranges::find(m.notices, number, &NoticeReceipt::number);
    repeated = std::exchange(receipt.acknowledged, true);
  });
  if (repeated) return {};
  group.put(id, at);
  // Members get a new status only after the last acknowledgement of a notice. If each
  // acknowledgement made a new status, each of n members would get n messages.
  if (--open_.at(number).unacknowledged == 0) {
    group.note_status_change(at);
  } else {
    group.note_change(at.revision);
    group.renew_version();
  }
  return {};
}

void Notices::forget(GroupState& group, const SessionId& id) {
  std::vector<NoticeReceipt> receipts;
  group.change(id, [&](GroupMember& m) { receipts = std::exchange(m.notices, {}); });
  for (const NoticeReceipt& receipt : receipts) {
    Open& open = open_.at(receipt.number);
    if (!receipt.acknowledged) --open.unacknowledged;
    if (--open.named > 0) continue;
    open_.erase(receipt.number);
    std::erase_if(group.edit_facts().notices,
                  [&](const StoredNotice& notice) { return notice.number == receipt.number; });
  }
}

std::optional<Notices::Overdue> Notices::take_overdue(const GroupState& group, TimePoint now) {
  const auto due = std::ranges::find_if(
      open_, [&](const auto& entry) { return entry.second.ends && *entry.second.ends <= now; });
  if (due == open_.end()) return std::nullopt;
  due->second.ends.reset();
  const StoredNotice& notice =
      *std::ranges::find(group.facts().notices, due->first, &StoredNotice::number);
  std::vector<std::pair<std::int64_t, SessionId>> named;
  for (const auto& [id, m] : group.members()) {
    if (names(m, notice.number)) named.emplace_back(m.rank, id);
  }
  std::ranges::sort(named);
  Overdue overdue;
  overdue.why = format("asked to leave ({}), but still present after {}", notice.reason,
                       human(notice.deadline));
  for (const auto& [rank, id] : named) overdue.members.push_back(id);
  return overdue;
}

std::optional<TimePoint> Notices::next_deadline() const {
  std::optional<TimePoint> next;
  for (const auto& [number, open] : open_) {
    for (const auto& when : {open.ends, open.ends ? open.note_at : std::nullopt}) {
      if (when) next = next ? std::min(*next, *when) : *when;
    }
  }
  return next;
}

void Notices::note_time_left(GroupState& group, TimePoint now) {
  for (auto& [number, open] : open_) {
    if (!open.ends || !open.note_at || *open.note_at > now) continue;
    StoredNotice& notice =
        *std::ranges::find(group.edit_facts().notices, number, &StoredNotice::number);
    notice.time_left =
        to_note(notice.time_left, notice.deadline, *open.ends - now).value_or(notice.time_left);
    open.note_at = note_of(notice, open.ends);
  }
}

void Notices::describe(const GroupState& group, GroupStatus& status) {
  if (group.facts().notices.empty()) return;
  struct Ranks {
    std::vector<Rank> named;
    std::vector<Rank> acknowledged;
  };
  std::map<std::uint64_t, Ranks> ranks;
  for (Rank rank = 0; rank < group.size(); ++rank) {
    const GroupMember* m = group.holder(rank);
    if (m == nullptr) continue;
    for (const NoticeReceipt& receipt : m->notices) {
      ranks[receipt.number].named.push_back(rank);
      if (receipt.acknowledged) ranks[receipt.number].acknowledged.push_back(rank);
    }
  }
  for (const StoredNotice& notice : group.facts().notices) {
    const Ranks& of = ranks[notice.number];
    status.notices.push_back({notice.number, notice.kind, ranges_of(of.named), Duration{0},
                              notice.reason, ranges_of(of.acknowledged)});
  }
}

void Notices::set_time_left(GroupStatus& status, TimePoint now) const {
  for (Notice& notice : status.notices) {
    const auto it = open_.find(notice.number);
    if (it == open_.end() || !it->second.ends) continue;
    notice.left = std::max(*it->second.ends - now, Duration(1));
  }
}

void Notices::resume(const GroupState& group, TimePoint now) {
  for (const StoredNotice& notice : group.facts().notices) {
    Open& open = open_[notice.number];
    open.ends = end_of(notice, now);
    open.note_at = note_of(notice, open.ends);
  }
  for (const auto& [id, m] : group.members()) {
    for (const NoticeReceipt& receipt : m.notices) {
      ++open_.at(receipt.number).named;
      if (!receipt.acknowledged) ++open_.at(receipt.number).unacknowledged;
    }
  }
}

}  // namespace c10dd::core
