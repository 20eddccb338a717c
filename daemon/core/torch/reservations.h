// SPDX-License-Identifier: Apache-2.0
// Keeps items of queues, each for the next request of one session with Hello::c10d
// (Session::reserved). Nothing of it is stored: after a restart all items are free.
#pragma once

#include <optional>

#include "daemon/core/deadlines.h"
#include "daemon/core/keys/queues.h"
#include "daemon/core/sessions/sessions.h"

namespace c10dd::core {

class Reservations {
 public:
  /// How long an item is kept for a session that sends no request. Long enough for a client whose
  /// packets are lost, or whose process gets no processor for a while.
  static constexpr Duration kKept = std::chrono::seconds(5);

  explicit Reservations(Queues& queues) : queues_(queues) {}

  /// Keeps the oldest free item of a queue, which must exist. The session must have none.
  void keep(const SessionId& id, Session& session, const Bytes& queue, TimePoint now) {
    session.reserved = Reservation{queue, queues_.reserve(queue)};
    ends_.set(id, now + kKept);
  }

  /// Makes the item that is kept for the session free again, in its old place. Returns its queue.
  Bytes release(const SessionId& id, Session& session) {
    ends_.erase(id);
    Bytes queue = std::move(session.reserved->queue);
    queues_.unreserve(queue, session.reserved->item);
    session.reserved.reset();
    return queue;
  }

  /// Returns a session whose item has been kept for long enough; the caller must release it.
  std::optional<SessionId> take_due(TimePoint now) { return ends_.take_due(now); }
  std::optional<TimePoint> next_deadline() const { return ends_.next(); }
  std::size_t size() const { return ends_.size(); }

 private:
  Queues& queues_;
  Deadlines<SessionId> ends_;
};

}  // namespace c10dd::core
