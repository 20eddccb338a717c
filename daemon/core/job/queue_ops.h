// SPDX-License-Identifier: Apache-2.0
// Answers the operations on queues: stores pushed items and delivers each item to one pop.
#pragma once

#include "daemon/core/torch/reservations.h"
#include "daemon/core/waiting/waits.h"

namespace c10dd::core {

class QueueOps {
 public:
  QueueOps(Queues& queues, Sessions& sessions, Reservations& reservations, Waits& waits)
      : queues_(queues), sessions_(sessions), reservations_(reservations), waits_(waits) {}

  OptionalReply on(Step& step, const QueuePush& request);
  OptionalReply on(Step& step, const QueuePop& pop);
  OptionalReply on(Step& step, const QueueLength& request);

  /// Pushes a value that Queues::check_push() has allowed.
  void push(Step& step, const Bytes& queue, Bytes value);
  /// Puts the item of a delivery back in its old place in the queue, because the pop was cancelled
  /// or the session of the pop has ended.
  void give_back(Step& step, const Delivery& delivery);

  /// Makes the item that is kept for the session free again, unless `request`, the session's next
  /// request, pops it.
  void next_request(Step& step, const Request& request);
  /// Makes the item that is kept for the session free again, and serves it at once.
  void free_reserved(Step& step, const SessionId& id, Session& session);
  /// Does so for the sessions that have sent no request for Reservations::kKept.
  void tick(Step& step);

  /// Delivers the items that became free in this step to the blocked pops, the oldest pop first.
  /// Then answers the oldest blocked `wait` of a session with Hello::c10d for each further item,
  /// and keeps the item for that session.
  void serve(Step& step);

 private:
  Reply take(Step& step, const SessionId& session, std::uint64_t sequence,
             std::uint64_t fingerprint, const Bytes& queue);

  Queues& queues_;
  Sessions& sessions_;
  Reservations& reservations_;
  Waits& waits_;
};

}  // namespace c10dd::core
