// SPDX-License-Identifier: Apache-2.0
// Queues: who pushes, who gets which item, and how an item comes back.
#include "daemon/core/job_step.h"

namespace c10dd::core {

void Job::push(Step& step, const Bytes& queue, Bytes value) {
  step.out.rows.push_back(queues_.push(queue, std::move(value), step.next));
  step.queues.push_back(queue);
  step.observe(step.next);
}

Job::Maybe Job::on(Step& step, const QueuePush& request) {
  Result<void> good = queues_.check_push(request.key, request.value.size(), 0, 0);
  if (!good) return good.error();
  push(step, request.key, request.value);
  return answer(Counted{queues_.length(request.key)});
}

Job::Maybe Job::on(Step& step, const QueuePop& pop) {
  if (Result<void> good = check_key(pop.key); !good) return good.error();
  if (queues_.oldest(pop.key)) {
    step.observe(step.next);
    return take(step, step.from.session, step.call.sequence, step.call.fingerprint, pop.key);
  }
  return block(step, pop, {queue_token(pop.key)}, pop.timeout);
}

Job::Maybe Job::on(Step& step, const QueueLength& request) {
  if (Result<void> good = check_key(request.key); !good) return good.error();
  step.observe(queues_.observed());
  return answer(Counted{queues_.length(request.key)});
}

/// Claims the oldest item, of which there is one, as the answer of a call.
Answer Job::take(Step& step, const SessionId& session, std::uint64_t sequence,
                 std::uint64_t fingerprint, const Bytes& queue) {
  const ItemId item = *queues_.oldest(queue);
  queues_.claim(queue, item, step.next);
  sessions_.keep(session, *sessions_.find(session), sequence,
                 Claim{queue, item.revision, item.index, fingerprint, step.next}, step.out.rows);
  return ReplyBody(Popped{queues_.value(queue, item)});
}

/// An item whose pop did not come to its end is back in its old place.
void Job::give_back(Step& step, const Claim& claim) {
  queues_.release(claim.queue, claim.item(), step.next);
  step.queues.push_back(claim.queue);
}

/// Items that came in this step go to the pops that wait for them, the oldest first.
void Job::serve_pops(Step& step) {
  for (const Bytes& queue : step.queues) {
    while (queues_.oldest(queue)) {
      const auto waiter = pending_.fire_one(queue_token(queue));
      if (!waiter) break;
      Answer item = take(step, waiter->session, waiter->sequence, waiter->fingerprint, queue);
      finish(step.out, *waiter, std::move(item), step.next, step.now);
    }
    if (queues_.length(queue) > 0) step.fired.push_back(key_token(queue));
  }
}

}  // namespace c10dd::core
