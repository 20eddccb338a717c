// SPDX-License-Identifier: Apache-2.0
// Sends and handles the control messages of each peer. A thread per peer waits for them, because
// Gloo can wait for one buffer only, and a buffer that several peers share is lost with the first
// of them. Gloo delivers what a peer sends in order, so the elements of a message are there when
// its `sent` arrives.
#include <gloo/common/error.h>

#include <chrono>
#include <cstring>
#include <stdexcept>

#include "collectives/gloo/messages.h"
#include "collectives/gloo/sigpipe.h"
#include "collectives/message_texts.h"

namespace c10dd::collectives {
namespace {

// Top bytes of slots (message tags) that neither Gloo's collectives nor ExitMessages use.
constexpr std::uint64_t kControlSlot = std::uint64_t{0x7d} << 56;
constexpr std::uint64_t kPayloadSlot = std::uint64_t{0x7c} << 56;

constexpr auto kForever = std::chrono::milliseconds(std::chrono::hours(24 * 365));

}  // namespace

// Returns the channel of the peer. Opens it, and starts its thread, if it is new. If the connection
// has ended, so has the channel.
Messages::Channel& Messages::channel_locked(Rank peer) {
  std::unique_ptr<Channel>& channel = channels_[peer];
  if (channel) return *channel;
  channel = std::make_unique<Channel>();
  channel->peer = peer;
  try {
    channel->arrival =
        transport_->inner().createUnboundBuffer(channel->memory.data(), channel->memory.size());
    channel->arrival->recv(static_cast<int>(peer), kControlSlot, 0, channel->memory.size());
    channel->thread =
        std::thread([self = shared_from_this(), own = channel.get()] { self->run(*own); });
  } catch (const std::exception&) {
    channel->ended = true;
  }
  return *channel;
}

// Sends a control message. Throws if the connection has ended.
void Messages::send_locked(Channel& channel, Control control, const void* elements) {
  const bool offer = control.type == Control::Type::offer;
  const std::size_t bytes = offer && control.eager > 0 ? control.eager - 1 : 0;
  control.seen = channel.received;
  Outgoing& out = channel.outgoing.emplace_back();
  out.bytes.resize(sizeof(control) + bytes);
  std::memcpy(out.bytes.data(), &control, sizeof(control));
  if (bytes > 0) std::memcpy(out.bytes.data() + sizeof(control), elements, bytes);
  out.buffer = transport_->inner().createUnboundBuffer(out.bytes.data(), out.bytes.size());
  out.buffer->send(static_cast<int>(channel.peer), kControlSlot, 0, out.bytes.size());
}

// Runs on the thread of the channel.
void Messages::run(Channel& channel) {
  const NoSigpipe no_sigpipe;
  for (;;) {
    std::vector<End> ends;
    std::optional<std::string> lost;
    try {
      if (!channel.arrival->waitRecv(nullptr, kForever)) return;  // stopped
      if (!take(channel, ends)) return;
    } catch (const std::exception& error) {
      lost = error.what();
    }
    for (End& end : ends) end.completion->complete_message(std::move(end.result));
    if (lost) return handle_lost(channel, *lost);
  }
}

// Takes the control message that has arrived. Returns false if the messages were stopped. Throws if
// the connection has ended; `ends` then has what the message has ended nevertheless.
bool Messages::take(Channel& channel, std::vector<End>& ends) {
  const std::lock_guard lock(mutex_);
  if (stopped_) return false;
  Control control;
  std::memcpy(&control, channel.memory.data(), sizeof(control));
  require_sound_locked(channel, control);
  Bytes elements;
  if (control.type == Control::Type::offer && control.eager > 0) {
    const std::byte* const from = channel.memory.data() + sizeof(control);
    elements.assign(from, from + (control.eager - 1));
  }
  ++channel.received;
  for (; channel.first_outgoing < control.seen; ++channel.first_outgoing) {
    channel.outgoing.pop_front();
  }
  handle_locked(channel, control, std::move(elements), ends);
  channel.arrival->recv(static_cast<int>(channel.peer), kControlSlot, 0, channel.memory.size());
  return true;
}

// Throws if no rank sends such a control message now: the peer has lost its state. What it says is
// neither used as a size nor looked up.
void Messages::require_sound_locked(const Channel& channel, const Control& control) const {
  using Type = Control::Type;
  const Key key{channel.peer, control.id};
  bool sound = control.seen <= channel.first_outgoing + channel.outgoing.size() &&
               static_cast<std::size_t>(control.dtype) < kDTypes && control.type <= Type::refused;
  if (sound && control.type == Type::offer && control.eager > 0) {
    const std::uint64_t bytes = control.eager - 1;
    sound = bytes <= kEagerMax && bytes == control.count * size_of(control.dtype);
  } else if (sound && control.type == Type::sent) {
    sound = receiving_.contains(key);
  } else if (sound && control.type != Type::offer) {
    const auto found = sending_.find(key);
    sound = found != sending_.end() && (control.type != Type::grant || !found->second.payload);
  }
  if (!sound) throw std::runtime_error("the peer sent an invalid control message");
}

void Messages::handle_locked(Channel& channel, const Control& control, Bytes elements,
                             std::vector<End>& ends) {
  const Key key{channel.peer, control.id};
  if (control.type == Control::Type::offer) {
    Offer offer{channel.peer, control.tag, control.dtype, control.id, control.count, std::nullopt};
    if (control.eager > 0) offer.elements = std::move(elements);
    const auto receive = inbox_.offer(offer);
    if (!receive) return inbox_.keep(std::move(offer));
    return accept_locked(std::move(offer), *receive, ends);
  }
  if (control.type == Control::Type::sent) {
    auto found = receiving_.extract(key);
    Transfer& transfer = found.mapped();
    transfer.payload->waitRecv(nullptr, kForever);  // returns at once
    transfer.payload.reset();
    ends.push_back({transfer.completion, Received{channel.peer, transfer.tag, transfer.count}});
    return send_locked(channel, {.type = Control::Type::done, .id = control.id});
  }
  if (control.type == Control::Type::grant) {
    Transfer& transfer = sending_.at(key);
    const Tensor& input = transfer.operation->input;
    transfer.payload = transport_->inner().createUnboundBuffer(input.data, input.bytes());
    transfer.payload->send(static_cast<int>(channel.peer), kPayloadSlot | control.id, 0,
                           input.bytes());
    return send_locked(channel, {.type = Control::Type::sent, .id = control.id});
  }
  // done or refused
  auto found = sending_.extract(key);
  const Transfer& transfer = found.mapped();
  channel.eager -= transfer.eager;
  if (control.type == Control::Type::done) {
    ends.push_back({transfer.completion, Received{}});
  } else {
    const Tensor& input = transfer.operation->input;
    ends.push_back(
        {transfer.completion, does_not_fit(rank(), channel.peer, transfer.tag, input.count,
                                           input.dtype, control.count, control.dtype)});
  }
}

// Ends a recv with the message of an offer, or begins to receive its elements. Throws if the
// connection has ended; then the recv has ended or is registered.
void Messages::accept_locked(Offer offer, const Receive& receive, std::vector<End>& ends) {
  Channel& channel = *channels_[offer.source];
  const Tensor& to = receive.operation->output;
  if (!fits(offer.count, offer.dtype, to)) {
    ends.push_back({receive.completion, does_not_fit(offer.source, rank(), offer.tag, offer.count,
                                                     offer.dtype, to.count, to.dtype)});
    return send_locked(
        channel,
        {.type = Control::Type::refused, .dtype = to.dtype, .id = offer.id, .count = to.count});
  }
  if (offer.elements) {
    if (!offer.elements->empty()) {
      std::memcpy(to.data, offer.elements->data(), offer.elements->size());
    }
    ends.push_back({receive.completion, Received{offer.source, offer.tag, offer.count}});
    return send_locked(channel, {.type = Control::Type::done, .id = offer.id});
  }
  Transfer& transfer =
      receiving_
          .emplace(Key{offer.source, offer.id},
                   Transfer{receive.operation, receive.completion, offer.tag, offer.count})
          .first->second;
  const std::size_t bytes = offer.count * size_of(offer.dtype);
  transfer.payload = transport_->inner().createUnboundBuffer(to.data, bytes);
  transfer.payload->recv(static_cast<int>(offer.source), kPayloadSlot | offer.id, 0, bytes);
  send_locked(channel, {.type = Control::Type::grant, .id = offer.id});
}

// Called on the thread of the channel when its connection has ended. Stops the transport if a
// message waits for the peer. Otherwise the peer has already done its part.
void Messages::handle_lost(Channel& channel, const std::string& why) {
  std::string text;
  {
    const std::lock_guard lock(mutex_);
    channel.ended = true;
    if (stopped_) return;
    const Operation* const waiting = waiting_locked(channel.peer);
    if (waiting == nullptr) return;
    text = message_text(*waiting);
  }
  transport_->stop_for_lost_peer(text, why);
}

// Returns a message that cannot end without the peer, or null.
const Operation* Messages::waiting_locked(Rank peer) const {
  bool others = false;
  for (const auto& channel : channels_) others = others || (channel && !channel->ended);
  for (const auto* const transfers : {&sending_, &receiving_}) {
    const auto first = transfers->lower_bound(Key{peer, 0});
    if (first != transfers->end() && first->first.first == peer) return first->second.operation;
  }
  for (const Receive& one : inbox_.receives()) {
    const Rank from = one.operation->peer;
    if (from == peer || (from == kAnyRank && !others)) return one.operation;
  }
  return nullptr;
}

}  // namespace c10dd::collectives
