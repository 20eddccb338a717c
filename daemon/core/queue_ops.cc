// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/queue_ops.h"

namespace c10dd::core {

void QueueOps::push(Step& step, const Bytes& queue, Bytes value) {
  step.out.rows.push_back(queues_.push(queue, std::move(value), step.next));
  step.queues.push_back(queue);
  step.observe(step.next);
}

Maybe QueueOps::on(Step& step, const QueuePush& request) {
  Result<void> good = queues_.check_push(request.key, request.value.size(), 0, 0);
  if (!good) return good.error();
  push(step, request.key, request.value);
  return reply(Counted{queues_.length(request.key)});
}

Maybe QueueOps::on(Step& step, const QueuePop& pop) {
  if (Result<void> good = check_key(pop.key); !good) return good.error();
  if (queues_.oldest(pop.key)) {
    step.observe(step.next);
    return take(step, step.from.session, step.call.sequence, step.call.fingerprint, pop.key);
  }
  return waits_.block(step, pop, pop.timeout);
}

Maybe QueueOps::on(Step& step, const QueueLength& request) {
  if (Result<void> good = check_key(request.key); !good) return good.error();
  step.observe(queues_.observed());
  return reply(Counted{queues_.length(request.key)});
}

/// Delivers the oldest free item of a queue, which must have one. Returns the reply that carries
/// the item.
Reply QueueOps::take(Step& step, const SessionId& session, std::uint64_t sequence,
                     std::uint64_t fingerprint, const Bytes& queue) {
  const ItemId item = *queues_.oldest(queue);
  queues_.deliver(queue, item, step.next);
  sessions_.keep(session, *sessions_.find(session), sequence,
                 Delivery{queue, item.revision, item.index, fingerprint, step.next}, step.out.rows);
  return ReplyBody(Popped{queues_.value(queue, item)});
}

void QueueOps::give_back(Step& step, const Delivery& delivery) {
  queues_.release(delivery.queue, delivery.item(), step.next);
  step.queues.push_back(delivery.queue);
}

void QueueOps::serve(Step& step) {
  for (const Bytes& queue : std::exchange(step.queues, {})) {
    while (queues_.oldest(queue)) {
      const auto waiter = waits_.take_one(queue_token(queue));
      if (!waiter) break;
      Reply item = take(step, waiter->session, waiter->sequence, waiter->fingerprint, queue);
      waits_.finish(step, *waiter, std::move(item), step.next);
    }
    if (queues_.length(queue) > 0) step.signal(key_token(queue));
  }
}

}  // namespace c10dd::core
