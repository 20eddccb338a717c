// SPDX-License-Identifier: Apache-2.0
// Starts messages, and ends all of them after the transport was stopped. message_channel.cc handles
// the control messages of the peers. Operations end without the lock, because they may call the
// user's callbacks.
#include "collectives/gloo/messages.h"

#include <gloo/common/error.h>

#include <algorithm>
#include <cstring>
#include <system_error>

#include "collectives/gloo/sigpipe.h"
#include "collectives/message_texts.h"

namespace c10dd::collectives {
namespace {

// How long close() lets the last control messages leave.
constexpr auto kLastMessagesTime = std::chrono::milliseconds(50);

void join_or_detach(std::thread& thread) {
  if (!thread.joinable()) return;
  // A completion on this very thread may have closed the group.
  thread.get_id() == std::this_thread::get_id() ? thread.detach() : thread.join();
}

}  // namespace

Messages::Messages(std::shared_ptr<Transport> transport)
    : transport_(std::move(transport)), channels_(static_cast<std::size_t>(transport_->size)) {}

Messages::~Messages() = default;

void Messages::open() {
  TimerThread::instance().add(*this);
  transport_->on_stop([weak = weak_from_this()] {
    // Called with the transport's lock held. Operations must end elsewhere, because the end of an
    // operation may wait for the daemon.
    const auto self = weak.lock();
    if (!self) return;
    try {
      self->ender_ = std::thread([self] { self->fail_all(); });
    } catch (const std::system_error&) {
      TimerThread::instance().wake(*self,
                                   Clock::now());  // no thread can start: on_time() ends them
    }
  });
}

void Messages::close() {
  const NoSigpipe no_sigpipe;
  transport_->on_stop(nullptr);  // from here on ender_ does not change
  TimerThread::instance().remove(*this);
  std::vector<Channel*> channels;
  {
    const std::lock_guard lock(mutex_);
    const auto until = Clock::now() + kLastMessagesTime;
    for (const auto& channel : channels_) {
      if (!channel) continue;
      channels.push_back(channel.get());
      if (stopped_ || channel->ended) continue;
      for (Outgoing& one : channel->outgoing) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
        try {
          one.buffer->waitSend(nullptr, std::max(left, std::chrono::milliseconds(1)));
        } catch (const std::exception&) {
          break;  // the peer does not read, or has ended
        }
      }
    }
    stopped_ = true;
    for (Channel* const channel : channels) {
      if (channel->arrival) channel->arrival->abortWaitRecv();
    }
  }
  for (Channel* const channel : channels) join_or_detach(channel->thread);
  join_or_detach(ender_);
}

void Messages::start(const Operation& operation, Completion& completion) {
  const NoSigpipe no_sigpipe;
  const Clock::time_point deadline = operation.deadline;
  const std::string text = message_text(operation);  // the operation may end in this function
  TimerThread::instance().require_thread();
  std::vector<End> ends;
  bool lost = false;
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) {
      ends.push_back({&completion, *transport_->stopped()});
    } else {
      try {
        operation.collective == Collective::send ? offer_locked(operation, completion)
                                                 : post_locked(operation, completion, ends);
      } catch (const std::exception&) {
        // The connection has ended. The operation is registered, so that fail_all() ends it.
        lost = ends.empty();
      }
      lost = lost || (ends.empty() && !may_end_locked(operation.peer));
    }
  }
  for (End& end : ends) end.completion->complete_message(std::move(end.result));
  if (lost) return transport_->stop_for_lost_peer(text, "the connection has ended");
  if (ends.empty()) TimerThread::instance().wake(*this, deadline);
}

// Returns whether the peer, or any peer, is still connected.
bool Messages::may_end_locked(Rank peer) const {
  if (peer != kAnyRank) return !channels_[peer]->ended;
  return std::ranges::any_of(channels_,
                             [](const auto& channel) { return channel && !channel->ended; });
}

// Registers a send, and sends its offer. Throws if the connection has ended.
void Messages::offer_locked(const Operation& operation, Completion& completion) {
  Channel& channel = channel_locked(operation.peer);
  const std::size_t bytes = operation.input.bytes();
  const bool eager = bytes <= kEagerMax && channel.eager + bytes <= kEagerPending;
  const std::uint64_t id = channel.next_id++;
  Transfer transfer{&operation, &completion, operation.tag, operation.input.count};
  transfer.eager = eager ? bytes : 0;
  channel.eager += transfer.eager;
  sending_.emplace(Key{operation.peer, id}, std::move(transfer));
  if (channel.ended) return;
  // `eager` of an offer is 1 more than its bytes, so that 0 says that the elements do not follow.
  send_locked(channel,
              {.type = Control::Type::offer,
               .dtype = operation.input.dtype,
               .tag = operation.tag,
               .id = id,
               .count = operation.input.count,
               .eager = eager ? bytes + 1 : 0},
              operation.input.data);
}

// Registers a recv, unless the message is there already. Throws if the connection has ended.
void Messages::post_locked(const Operation& operation, Completion& completion,
                           std::vector<End>& ends) {
  for (Rank peer = 0; peer < channels_.size(); ++peer) {
    if (peer != rank() && (operation.peer == peer || operation.peer == kAnyRank)) {
      channel_locked(peer);
    }
  }
  const Receive receive{&operation, &completion};
  if (auto offer = inbox_.post(receive)) accept_locked(std::move(*offer), receive, ends);
}

Messages::Clock::time_point Messages::on_time(Clock::time_point now) noexcept {
  if (transport_->stopped()) {
    fail_all();
    return Clock::time_point::max();
  }
  MessageDeadlines all{now};
  const auto missing = [this](Rank peer) {
    return transport_->missing_peer(peer, MissingRank::Cause::not_arrived, "");
  };
  {
    const std::lock_guard lock(mutex_);
    for (const Receive& one : inbox_.receives()) {
      all.add(*one.operation, one.operation->peer, missing);
    }
    for (const auto& [key, one] : sending_) all.add(*one.operation, key.first, missing);
    for (const auto& [key, one] : receiving_) all.add(*one.operation, key.first, missing);
  }
  if (!all.late) return all.next;
  const Failure exit_message =
      failure(Code::timed_out, "rank {} stopped: {}", rank(), all.late->detail);
  transport_->stop(std::move(*all.late), exit_message, Transport::Closing::at_destruction);
  return Clock::time_point::max();
}

// Ends all messages with the reason for which the transport was stopped.
void Messages::fail_all() {
  const Failure reason = *transport_->stopped();
  std::vector<Completion*> waiting;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    for (const Receive& one : inbox_.receives()) waiting.push_back(one.completion);
    for (const auto& [key, one] : sending_) waiting.push_back(one.completion);
    for (const auto& [key, one] : receiving_) waiting.push_back(one.completion);
    inbox_ = {};
    sending_.clear();  // after this, Gloo does not access the elements any more
    receiving_.clear();
    for (const auto& channel : channels_) {
      if (channel && channel->arrival) channel->arrival->abortWaitRecv();
    }
  }
  for (Completion* const completion : waiting) completion->complete_message(reason);
}

}  // namespace c10dd::collectives
