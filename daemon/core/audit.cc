// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/audit.h"

#include <algorithm>
#include <initializer_list>

#include "daemon/core/job/job.h"
#include "protocol/format.h"

namespace c10dd::core {
namespace {

/// Compares a stored number with the recounted number. Returns a finding if the numbers differ.
AuditResult differ(const char* what, std::size_t kept, std::size_t counted) {
  if (kept == counted) return std::nullopt;
  return format("{}: {} kept, {} counted", what, kept, counted);
}

/// Returns the first finding that reports an inconsistency, or nullopt if none does.
AuditResult first(std::initializer_list<AuditResult> all) {
  for (const AuditResult& one : all) {
    if (one) return one;
  }
  return std::nullopt;
}

}  // namespace

AuditResult Pending::audit() const {
  std::size_t weight = 0;
  std::size_t missing = 0;
  std::size_t prefixes = 0;
  std::size_t counting = 0;
  std::size_t endless = 0;
  for (const auto& [id, waiter] : waiters_) {
    weight += waiter.weight;
    endless += waiter.deadline == TimePoint::max() ? 1 : 0;
    missing += waiter.missing;
    for (const Bytes& token : waiter.tokens) {
      prefixes += token.front() == 'p' ? 1 : 0;
      counting += token.front() == 'n' ? 1 : 0;
    }
  }
  std::size_t indexed = 0;
  for (const auto& [token, ids] : by_token_) indexed += ids.size();
  std::size_t sized = 0;
  for (const auto& [size, count] : prefix_sizes_) sized += count;
  std::size_t counted = 0;
  for (const auto& [key, numbers] : counters_) {
    for (const auto& [number, waiters] : numbers) counted += waiters;
  }
  return first(
      {differ("weight of blocked requests", weight_, weight),
       differ("tokens of blocked requests", indexed, missing),
       differ("prefixes of blocked requests", sized, prefixes),
       differ("blocked requests that wait for a number", counted, counting),
       differ("deadlines of blocked requests", by_deadline_.size(), waiters_.size() - endless),
       differ("calls of blocked requests", by_call_.size(), waiters_.size())});
}

AuditResult Barriers::audit() const {
  std::size_t arrived_bytes = 0;
  std::size_t completed_bytes = 0;
  std::size_t completed = 0;
  std::size_t waiting = 0;
  for (const auto& [key, barrier] : barriers_) {
    for (const auto& [rank, arrival] : barrier.arrivals) {
      for (const Bytes& part : arrival.parts) arrived_bytes += part.size() + sizeof(std::uint32_t);
      const Participation::Participant* participant = participation_.find(arrival.session);
      if (participant == nullptr || !participant->waits.contains(key)) {
        return describe(key) + ": a session that has arrived is not recorded as a participant";
      }
    }
    waiting += waiting_.contains(key) && !barrier.absent.empty() ? 1 : 0;
    if (!barrier.complete) continue;
    ++completed;
    completed_bytes += barrier.bytes();
  }
  return first({differ("bytes of arrivals", arrived_bytes_, arrived_bytes),
                differ("bytes of outcomes", completed_bytes_, completed_bytes),
                differ("outcomes", completed_.size(), completed),
                differ("unfinished barriers", unfinished_.size(), barriers_.size() - completed),
                differ("barriers that wait for a connection", waiting_.size(), waiting)});
}

AuditResult History::audit() const {
  std::size_t kept = 0;
  std::size_t recent = 0;
  const auto size_of = [](const Change& change) {
    return sizeof(Change) + change.key.size() + change.value.size();
  };
  for (const StoredChange& entry : kept_) kept += size_of(entry.change);
  for (const StoredChange& entry : recent_) recent += size_of(entry.change);
  std::size_t prefixes = 0;
  for (const auto& [subject, watched] : watched_) prefixes += subject.first ? 1 : 0;
  std::size_t sized = 0;
  for (const auto& [size, count] : prefix_sizes_) sized += count;
  return first({differ("bytes of watched changes", kept_bytes_, kept),
                differ("bytes of changes", bytes_, kept + recent),
                differ("watched prefixes", sized, prefixes),
                differ("deadlines of what is watched", by_deadline_.size(), watched_.size())});
}

AuditResult CallBoard::audit() const {
  std::size_t entries = 0;
  for (const auto& [number, group] : groups_) {
    std::size_t ranks = 0;
    for (const auto& [call, who] : group.calls) ranks += who.size();
    entries += group.current.size();
    AuditResult wrong =
        first({differ("ranks in published calls", ranks, group.current.size()),
               differ("ranks that have published", group.published.size(), group.current.size())});
    if (wrong) return wrong;
  }
  return differ("deadlines of published calls", deadlines_.size(), entries);
}

AuditResult KeySpace::audit() const {
  std::size_t bytes = 0;
  for (const auto& [key, entry] : entries_) bytes += key.size() + entry.value.size();
  std::size_t found = 0;
  for (const auto& [key, entry] : entries_) found += find(key) == &entry ? 1 : 0;
  return first({differ("bytes of keys", bytes_, bytes),
                differ("keys in the index", index_.size(), entries_.size()),
                differ("keys that are found", found, entries_.size())});
}

AuditResult Queues::audit() const {
  std::size_t items = 0;
  std::size_t bytes = 0;
  for (const auto& [name, queue] : queues_) {
    items += queue.items.size();
    for (const auto& [id, value] : queue.items) bytes += name.size() + value.size();
  }
  std::size_t reserved = 0;
  for (const auto& [name, queue] : queues_) reserved += queue.reserved;
  return first({differ("reserved items", reserved_, reserved), differ("items", items_, items),
                differ("bytes of items", bytes_, bytes)});
}

AuditResult Job::audit() const {
  std::size_t unconnected = 0;
  std::size_t unwatched = 0;
  const Deadlines<SessionId>& absences = barrier_ops_.absences();
  waits_.pending().for_each([&](const Pending::Waiter& waiter) {
    const Session* session = sessions_.find(waiter.session);
    unconnected += session == nullptr || !session->connected ? 1 : 0;
    unwatched += waiter.absent && !absences.contains(*waiter.absent) ? 1 : 0;
  });
  std::size_t reserved = 0;
  std::size_t kept = 0;  // what only a fleeting session that has broken its promises has
  for (const auto& [id, session] : sessions_.all()) {
    reserved += session.reserved ? 1 : 0;
    const bool clean = session.connected && session.kept_since == 0 && session.replies.empty();
    kept += session.fleeting && !(clean && session.deliveries.empty()) ? 1 : 0;
  }
  const auto connected = static_cast<std::size_t>(std::ranges::count_if(
      sessions_.all(), [](const auto& entry) { return entry.second.connected; }));
  AuditResult found = first({
      keys_.audit(),
      queues_.audit(),
      history_.audit(),
      barriers_.audit(),
      call_board_.audit(),
      waits_.pending().audit(),
      differ("connected sessions", sessions_.connected(), connected),
      differ("items that are kept for a session", queues_.reserved(), reserved),
      differ("deadlines of kept items", reservations_.size(), reserved),
      differ("fleeting sessions with a reply, a row or no connection", kept, 0),
      differ("blocked requests of sessions without a connection", unconnected, 0),
      differ("blocked requests that wait for a forgotten session", unwatched, 0),
  });
  if (found || sessions_.size() > 0) return found;
  return first({differ("without a session, blocked requests", waits_.size(), 0),
                differ("without a session, unfinished barriers", barriers_.pending(), 0),
                differ("without a session, outcomes of barriers", barriers_.outcomes(), 0),
                differ("without a session, totals of collectives", ledger_.sessions(), 0),
                differ("without a session, absent ones", absences.size(), 0)});
}

}  // namespace c10dd::core
