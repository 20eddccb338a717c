// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/job/queue_ops.h"

namespace c10dd::core {

void QueueOps::push(Step& step, const Bytes& queue, Bytes value) {
  step.out.rows.push_back(queues_.push(queue, std::move(value), step.next));
  step.queues.push_back(queue);
  step.observe(step.next);
}

OptionalReply QueueOps::on(Step& step, const QueuePush& request) {
  Result<void> good = queues_.check_push(request.key, request.value.size(), 0, 0);
  if (!good) return good.error();
  push(step, request.key, request.value);
  return reply(Counted{queues_.length(request.key)});
}

OptionalReply QueueOps::on(Step& step, const QueuePop& pop) {
  if (Result<void> good = check_key(pop.key); !good) return good.error();
  const std::optional<Reservation>& reserved = step.session->reserved;
  if ((reserved && reserved->queue == pop.key) || queues_.oldest(pop.key)) {
    step.observe(step.next);
    return take(step, step.from.session, step.call.sequence, step.call.fingerprint, pop.key);
  }
  return waits_.block(step, pop, pop.timeout);
}

OptionalReply QueueOps::on(Step& step, const QueueLength& request) {
  if (Result<void> good = check_key(request.key); !good) return good.error();
  step.observe(queues_.observed());
  return reply(Counted{queues_.length(request.key)});
}

/// Delivers the item that is kept for the session, or else the oldest free item of the queue. There
/// must be one. A fleeting session cannot repeat the pop, so its item is removed at once. Returns
/// the reply that carries the item.
Reply QueueOps::take(Step& step, const SessionId& session, std::uint64_t sequence,
                     std::uint64_t fingerprint, const Bytes& queue) {
  Session& popper = *sessions_.find(session);
  if (popper.reserved && popper.reserved->queue == queue) {
    reservations_.release(session, popper);  // so it is the oldest free item, or older
  }
  const ItemId item = *queues_.oldest(queue);
  const std::uint64_t length = queues_.length(queue);
  queues_.deliver(queue, item, step.next);
  if (popper.fleeting) {
    Bytes value = queues_.value(queue, item);
    step.out.rows.push_back(queues_.erase(queue, item));
    return ReplyBody(Popped{std::move(value), length});
  }
  sessions_.keep(session, popper, sequence,
                 Delivery{queue, item.revision, item.index, fingerprint, step.next, length},
                 step.out.rows);
  return ReplyBody(Popped{queues_.value(queue, item), length});
}

void QueueOps::give_back(Step& step, const Delivery& delivery) {
  queues_.release(delivery.queue, delivery.item(), step.next);
  step.queues.push_back(delivery.queue);
}

void QueueOps::next_request(Step& step, const Request& request) {
  Session& session = *step.session;
  if (!session.reserved) return;
  const auto* pop = std::get_if<QueuePop>(&request);
  if (pop == nullptr || pop->key != session.reserved->queue)
    free_reserved(step, step.from.session, session);
}

/// Serves the item at once, because the step of a request or of a lost connection may change
/// nothing else, and Job::record() must see the rows of the delivery.
void QueueOps::free_reserved(Step& step, const SessionId& id, Session& session) {
  step.queues.push_back(reservations_.release(id, session));
  serve(step);
}

void QueueOps::tick(Step& step) {
  while (const auto id = reservations_.take_due(step.now)) {
    if (Session* const session = sessions_.find(*id)) free_reserved(step, *id, *session);
  }
}

void QueueOps::serve(Step& step) {
  for (const Bytes& queue : std::exchange(step.queues, {})) {
    while (queues_.oldest(queue)) {
      const auto waiter = waits_.take_one(queue_token(queue));
      if (!waiter) break;
      Reply item = take(step, waiter->session, waiter->sequence, waiter->fingerprint, queue);
      waits_.finish(step, *waiter, std::move(item), step.next);
    }
    while (queues_.oldest(queue)) {
      const auto waiter = waits_.take_one_reserving(key_token(queue));
      if (!waiter) break;
      Session& session = *sessions_.find(waiter->session);
      if (!session.reserved) reservations_.keep(waiter->session, session, queue, step.now);
      waits_.finish(step, *waiter, ReplyBody(Done{}), queues_.observed());
    }
    if (queues_.oldest(queue)) step.signal(key_token(queue));
  }
}

}  // namespace c10dd::core
