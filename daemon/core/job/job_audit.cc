// SPDX-License-Identifier: Apache-2.0
// Recounts what all parts of a job keep, and what they may keep without a session.
#include <algorithm>

#include "daemon/core/job/job.h"

namespace c10dd::core {

std::size_t Job::charged() const {
  std::size_t bytes = sessions_.charged() + barriers_.charged() + groups_.charged() +
                      history_.charged() + activity_.charged() + ledger_.charged();
  waits_.pending().for_each([&](const Pending::Waiter& waiter) { bytes += waiter.charge.bytes(); });
  return bytes;
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
  AuditResult found = first_difference({
      keys_.audit(),
      queues_.audit(),
      history_.audit(),
      barriers_.audit(),
      activity_.audit(),
      launch_.audit(sessions_),
      sessions_.audit(),
      waits_.pending().audit(),
      differ("connected sessions", sessions_.connected(), connected),
      differ("items that are kept for a session", queues_.reserved(), reserved),
      differ("deadlines of kept items", reservations_.size(), reserved),
      differ("fleeting sessions with a reply, a row or no connection", kept, 0),
      differ("blocked requests of sessions without a connection", unconnected, 0),
      differ("blocked requests that wait for a forgotten session", unwatched, 0),
  });
  if (found || sessions_.size() > 0) return found;
  return first_difference(
      {differ("without a session, blocked requests", waits_.size(), 0),
       differ("without a session, unfinished barriers", barriers_.pending(), 0),
       differ("without a session, outcomes of barriers", barriers_.outcomes(), 0),
       differ("without a session, totals of collectives", ledger_.sessions(), 0),
       differ("without a session, process groups", activity_.groups().size(), 0),
       differ("without a session, absent ones", absences.size(), 0)});
}

}  // namespace c10dd::core
