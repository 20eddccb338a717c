// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/connection.h"

#include "protocol/format.h"
#include "protocol/limits.h"
#include "tests/sim/access_story.h"
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
    note_credential(header.channel, hello);
    sessions_[header.channel] = hello.session;
    records_.sessions[hello.session].client = static_cast<std::uint32_t>(hello.pid);
    if (planted(Plant::rollback_not_noticed)) {
      hello.seen = {};
      native::encode_request(changed, header, hello);
      taken = **native::cut_request(changed, limits::kHelloFrameBytes);
    }
  } else if (header.op == Authenticate::op.code) {
    note_credential(header.channel, *native::decode_request(header.op, frame.body));
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
  check_told(header.channel, reply, header.op);
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

// ---- who may do what ---------------------------------------------------------------------------

Result<core::Caller> Connection::authenticate(const std::string& credential,
                                              const std::string& job) {
  if (!records_.access) return core::Caller{};
  Result<core::Caller> caller = records_.access->caller(credential, job);
  if (caller && !std::exchange(looks_, true)) look_again();
  return caller;
}

/// Asks again who the clients are, as Rechecks lets a daemon do: when a token has ended, or who may
/// do what has changed.
void Connection::look_again() {
  if (closed_) return;
  world_.after(AccessStory::kLook, [weak = weak_from_this(), this] {
    const auto self = weak.lock();
    if (!self || closed_) return;
    if (!look_due_) look_due_ = world_.now();
    shard_.post([weak, this] {
      const auto alive = weak.lock();
      if (!alive || closed_) return;
      look_due_.reset();
      if (!planted(Plant::recheck_left_out)) channels_.recheck();
    });
    look_again();
  });
}

/// Remembers what the client shows on a channel.
void Connection::note_credential(std::uint32_t channel, const Request& request) {
  if (const auto* hello = std::get_if<Hello>(&request)) {
    shown_[channel] = {hello->job, {hello->credential}};
  } else if (const auto* newer = std::get_if<Authenticate>(&request)) {
    shown_[channel].tokens.push_back(newer->credential);
  }
}

/// The oracle: a reply that is no refusal goes only to who may do something in the job.
void Connection::check_told(std::uint32_t channel, const Reply& reply, std::uint8_t op) {
  if (!records_.access || !reply || op == Ping::op.code) return;
  const Shown& shown = shown_[channel];
  for (const std::string& token : shown.tokens) {
    if (records_.access->may_be_told(token, shown.job, look_due_.value_or(world_.now()))) return;
  }
  world_.violated(
      "access", format("a reply to {} of {} goes to a client that has shown {}", find_op(op)->name,
                       shown.job, shown.tokens.empty() ? "nothing" : shown.tokens.back()));
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
