// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/connection.h"

#include "protocol/limits.h"
#include "tests/sim/plants.h"
#include "tests/sim/shard.h"

namespace c10dd::sim {
namespace {

/// Changes a reply before it is sent, if that fault is planted.
void spoil(Reply& reply) {
  auto* changes = reply ? std::get_if<Changes>(&*reply) : nullptr;
  if (changes == nullptr || changes->changes.size() < 2) return;
  if (planted(Plant::watch_event_lost)) changes->changes.erase(changes->changes.begin());
  if (planted(Plant::watch_event_twice)) changes->changes.push_back(changes->changes.back());
}

}  // namespace

Connection::Connection(Shard& shard, World& world, Records& records, LinkRef link)
    : shard_(shard),
      world_(world),
      records_(records),
      link_(std::move(link)),
      channels_(shard.host(), link_->number, *this) {}

void Connection::read(std::string_view bytes) {
  in_.append(bytes);
  std::string_view in = in_;
  if (in.size() < native::kMagic.size()) return;
  std::size_t used = 0;
  const bool first = in.starts_with(native::kMagic);
  if (first) used = native::kMagic.size();
  while (!closed_) {
    const std::size_t limit = channels_.opened() ? limits::kFrameBytes : limits::kHelloFrameBytes;
    const auto frame = native::cut_request(in.substr(used), limit);
    if (!frame) {
      refuse_bytes({}, frame.error());
      break;
    }
    if (!*frame) break;
    take_frame(**frame);
    used += (*frame)->size;
  }
  // Keeps the magic until a whole frame has followed it. Afterwards no rest of the input begins
  // with the magic.
  if (first && used == native::kMagic.size()) used = 0;
  in_.erase(0, used);
}

void Connection::take_frame(const core::NativeChannels::Frame& frame) {
  core::NativeChannels::Frame taken = frame;
  native::RequestHeader& header = taken.header;
  Bytes changed;
  if (header.op == Hello::op.code) {
    Hello hello = std::get<Hello>(*native::decode_request(header.op, frame.body));
    sessions_[header.channel] = hello.session;
    records_.sessions[hello.session].client = static_cast<std::uint32_t>(hello.pid);
    if (planted(Plant::rollback_not_noticed)) {
      hello.seen = {};
      native::encode_request(changed, header, hello);
      taken = **native::cut_request(changed, limits::kHelloFrameBytes);
    }
  } else if (sessions_.contains(header.channel)) {
    if (planted(Plant::acked_below_too_high)) ++header.acked_below;
    if (header.op == Goodbye::op.code) {
      records_.sessions[sessions_[header.channel]].said_goodbye = true;
    }
    if (header.op == Ping::op.code) {
      for (const auto& [channel, session] : sessions_) shard_.heard_of(session);
      if (planted(Plant::beats_not_counted)) return channels_.reply(header, ReplyBody(Done{}));
    }
  }
  if (!shard_.host().draining()) asked_[header.channel].insert({header.sequence, header.op});
  channels_.take(taken, 0);
}

void Connection::taken(const OpInfo& op) { world_.note("request", link_->number, 0, op.name); }

void Connection::send(const native::ReplyHeader& header, const Reply& reply) {
  if (closed_) return;
  asked_[header.channel].erase({header.sequence, header.op});
  Reply told = reply;
  spoil(told);
  const native::EncodedReply encoded = native::encode_reply(header, told);
  Bytes bytes = encoded.head;
  bytes += encoded.tail.view();
  world_.note("reply", header.sequence, header.stamp.revision, find_op(header.op)->name);
  link_->send(Link::daemon, bytes);
}

/// Plants a daemon that refuses requests which may have been applied.
void Connection::end_session(std::uint32_t channel, const Failure& reason) {
  if (planted(Plant::error_is_failure) && reason.code == Code::unavailable) {
    for (const auto& [sequence, op] : std::exchange(asked_[channel], {})) {
      native::RequestHeader header;
      header.channel = channel;
      header.sequence = sequence;
      header.op = op;
      if (sequence > 0) channels_.reply(header, failure(Code::out_of_range, "the engine failed"));
    }
  }
  asked_.erase(channel);
  sessions_.erase(channel);
  channels_.end_session(channel, reason);
}

void Connection::refuse_bytes(const native::RequestHeader&, const Failure& reason) {
  world_.violated("codec", "a frame of the product's client is refused: " + reason.detail);
  close();
}

void Connection::close() {
  if (std::exchange(closed_, true)) return;
  link_->close(Link::daemon);
  channels_.close_sessions();
  shard_.forget(link_->number);
}

}  // namespace c10dd::sim
