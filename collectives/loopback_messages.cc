// SPDX-License-Identifier: Apache-2.0
// Ends operations without the lock, because the end of an operation may call the user's callbacks.
#include "collectives/loopback_messages.h"

#include <algorithm>
#include <cstring>

#include "collectives/message_texts.h"
#include "collectives/wording.h"

namespace c10dd::collectives {

LoopbackMessages::LoopbackMessages(Rank size, std::function<void(const Failure&)> on_time_out)
    : on_time_out_(std::move(on_time_out)), inboxes_(size) {
  TimerThread::instance().add(*this);
}

LoopbackMessages::~LoopbackMessages() { TimerThread::instance().remove(*this); }

void LoopbackMessages::start(Rank rank, const Operation& operation, Completion& completion) {
  TimerThread::instance().require_thread();
  std::unique_lock lock(mutex_);
  if (dead_) {
    const Failure reason = *dead_;
    lock.unlock();
    return completion.complete_message(reason);
  }
  const Clock::time_point deadline = operation.deadline;
  if (operation.collective == Collective::send) {
    auto& inbox = inboxes_[operation.peer];
    const Offer offer{rank, operation.tag, &operation, &completion};
    if (const auto receive = inbox.offer(offer)) {
      lock.unlock();
      return deliver(offer, *receive, operation.peer);
    }
    inbox.keep(offer);
  } else {
    const Receive receive{&operation, &completion};
    if (const auto offer = inboxes_[rank].post(receive)) {
      lock.unlock();
      return deliver(*offer, receive, rank);
    }
  }
  lock.unlock();
  TimerThread::instance().wake(*this, deadline);
}

void LoopbackMessages::deliver(const Offer& offer, const Receive& receive, Rank receiver) {
  const Tensor& from = offer.operation->input;
  const Tensor& to = receive.operation->output;
  if (!fits(from.count, from.dtype, to)) {
    const Failure refused =
        does_not_fit(offer.source, receiver, offer.tag, from.count, from.dtype, to.count, to.dtype);
    receive.completion->complete_message(refused);
    return offer.completion->complete_message(refused);
  }
  if (from.count > 0) std::memcpy(to.data, from.data, from.bytes());
  const Received received{offer.source, offer.tag, from.count};
  receive.completion->complete_message(received);
  offer.completion->complete_message(Received{});
}

void LoopbackMessages::fail(const Failure& reason) {
  std::vector<Completion*> waiting;
  {
    const std::lock_guard lock(mutex_);
    if (dead_) return;
    dead_ = reason;
    for (auto& inbox : inboxes_) {
      for (const Offer& offer : inbox.offers()) waiting.push_back(offer.completion);
      for (const Receive& receive : inbox.receives()) waiting.push_back(receive.completion);
      inbox = {};
    }
  }
  for (Completion* const completion : waiting) completion->complete_message(reason);
}

LoopbackMessages::Clock::time_point LoopbackMessages::on_time(Clock::time_point now) noexcept {
  MessageDeadlines all{now};
  const auto missing = [](Rank rank) {
    return missing_rank(rank, {}, MissingRank::Cause::not_arrived);
  };
  {
    const std::lock_guard lock(mutex_);
    for (Rank rank = 0; rank < inboxes_.size(); ++rank) {
      for (const Offer& one : inboxes_[rank].offers()) all.add(*one.operation, rank, missing);
      for (const Receive& one : inboxes_[rank].receives()) {
        all.add(*one.operation, one.operation->peer, missing);
      }
    }
  }
  if (!all.late) return all.next;
  on_time_out_(*all.late);
  return Clock::time_point::max();
}

}  // namespace c10dd::collectives
