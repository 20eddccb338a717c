// SPDX-License-Identifier: Apache-2.0
#include "daemon/net/framed_session.h"
#include "daemon/net/refusal_log.h"

#include <algorithm>
#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <utility>

#include "daemon/net/freed_memory.h"
#include "daemon/shard/caused_log.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd::daemon {
namespace {

constexpr std::size_t kReadBytes = 256 * 1024;
constexpr const char* kNoRoom = "quota_exceeded";
constexpr std::chrono::milliseconds kHeardEvery{50};

}  // namespace

std::uint64_t next_connection() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

FramedSession::FramedSession(Protocol protocol, std::shared_ptr<Stream> stream,
                             const SessionContext& context, Shard& shard)
    : protocol_(protocol),
      stream_(std::move(stream)),
      context_(context),
      shard_(shard),
      share_(context.budget) {}

void FramedSession::begin(Bytes in) {
  share_.belong_to(self());
  outbox_ = std::make_shared<Outbox>(stream_,
                                     Outbox::Callbacks{[this] {
                                                         drained();
                                                         go_on_soon();
                                                       },
                                                       [this](const char* reason) { end(reason); },
                                                       [this](std::size_t bytes) {
                                                         queued_ = bytes;
                                                         share_.set_replies(queued_ + held_);
                                                       }});
  in_ = std::move(in);
  frames_left_ = true;
  go_on();
}

void FramedSession::set_held(std::size_t bytes) {
  if (std::exchange(held_, bytes) != bytes) share_.set_replies(queued_ + held_);
}

/// Calls a step of the session, and ends the session if the step fails.
template <class Step>
void FramedSession::run(Step&& step) {
  try {
    return step();
  } catch (const std::exception& e) {  // no memory, for example
    log_caused(stream_->address().to_string(), LogLevel::error,
               "event=session_failed protocol={} peer={} reason={}", name_of(protocol_),
               stream_->peer(), Sentence{e.what()});
  }
  end("failed");
}

/// Reads the next bytes, or takes the frames that an earlier turn has left. Does nothing if the
/// session has ended, waits already, or must not read now; in the last case, go_on_soon() is called
/// when it may read again.
void FramedSession::go_on() {
  if (ended_ != nullptr || waits_ || is_paused()) return;
  waits_ = true;
  if (frames_left_) return take_turn();
  stream_->read_into(asio::buffer(first_), self());
}

/// Calls go_on() from the loop, because the caller may be in the middle of taking frames.
void FramedSession::go_on_soon() {
  asio::post(shard_.loop(), [self = self()] { self->go_on(); });
}

void FramedSession::on_read(std::size_t bytes, const ErrorCode& failed) {
  first_bytes_ = bytes;
  read_failed_ = failed;
  has_read_ = true;
  take_turn();
}

void FramedSession::take_again() {
  run([this] { take_in(); });
}

/// Takes frames, if necessary in a later turn. The frames are those of the last read, or those that
/// an earlier turn has left.
void FramedSession::take_turn() {
  if (ended_ != nullptr) return;
  if (must_wait_for_turn()) {
    if (!read_failed_) note_heard();
    return wait_for_turn();
  }
  waits_ = false;
  run([this] {
    const bool good = std::exchange(has_read_, false) ? read() : (take_in(), true);
    good ? go_on() : end("peer");
  });
}

void FramedSession::clean_up() {
  // Sends only the bytes that the kernel takes without waiting; abandon() drops the others.
  // abandon() also drops the callbacks, because they use this session, and a pending write may keep
  // the outbox alive longer than the session.
  outbox_->flush();
  outbox_->abandon();
  Bytes().swap(in_);
  share_.leave();
  leave_jobs();
  context_.metrics.connection_closed(protocol_, ended_);
  asio::co_spawn(
      shard_.loop(), [self = self()] { return self->close_stream(); }, asio::detached);
}

asio::awaitable<void> FramedSession::close_stream() {
  if (ended_ == kNoRoom) {
    co_await stream_->finish_unread();
  } else {
    co_await stream_->finish();
  }
}

/// Returns true while the connection must not be read: too many reply bytes wait for the peer to
/// read them, the budget has no room for the frame that is arriving, or the protocol must wait.
bool FramedSession::is_paused() const {
  return !may_take() || outbox_->over_soft_limit() || waits_for_room_ ||
         (outbox_->over_small_limit() && share_.budget().scarce());
}

/// Returns true if the connection must take no bytes before the next turn of the loop: it has
/// already taken bytes in this turn, or its job has used its share of the turn.
bool FramedSession::must_wait_for_turn() const {
  return taken_turn_ == shard_.turn() || (newest_job() && shard_.spent(newest_job()));
}

void FramedSession::wait_for_turn() {
  shard_.rest([self = self()] { asio::post(self->shard_.loop(), [self] { self->take_turn(); }); },
              taken_turn_ == shard_.turn());
}

/// Takes the bytes that have arrived. Returns false at the end of the connection. If the bytes fill
/// the small buffer first_, continues in a large buffer that all connections of the thread share.
/// Thus an idle connection holds no large buffer.
bool FramedSession::read() {
  if (read_failed_) return false;
  static thread_local Bytes scratch(kReadBytes, '\0');
  std::string_view bytes(first_.data(), first_bytes_);
  if (first_bytes_ == first_.size()) {
    bytes.copy(scratch.data(), bytes.size());
    ErrorCode failed;  // ignored: if this read fails, the next read fails, too
    const bool small = share_.budget().scarce() && !share_.has_frame();
    const std::size_t most = small ? limits::kUncountedBytes : kReadBytes;
    const std::size_t more =
        stream_->read_now(asio::buffer(scratch.data(), most) + bytes.size(), failed);
    bytes = std::string_view(scratch).substr(0, bytes.size() + more);
  }
  if (in_.empty()) {
    const std::size_t used = take_frames(bytes);
    if (used < bytes.size()) in_ = bytes.substr(used);
    ask_for_room();
  } else {
    in_.append(bytes);
    take_in();
  }
  if (!in_.empty()) note_heard();
  return true;
}

/// Tells the derived class that bytes are at hand. Not in every turn: the turns of a busy loop are
/// shorter than any ttl.
void FramedSession::note_heard() {
  const core::SteadyTime now = shard_.loop().now();
  if (now < heard_again_) return;
  heard_again_ = now + kHeardEvery;
  heard();
}

/// Takes the complete frames at the beginning of in_, and keeps the rest.
void FramedSession::take_in() {
  const std::size_t used = take_frames(in_);
  in_.erase(0, used);
  if (used > 0) share_.end_frame();
  ask_for_room();
  const bool small = in_.size() <= limits::kSmallFrameBytes && !share_.has_frame();
  const bool large = in_.capacity() >= kReturnedFrameBytes;
  if (small && in_.capacity() > limits::kSmallFrameBytes) in_.shrink_to_fit();
  if (small && large) return_freed_memory();
}

/// If the frame that is arriving is large, or larger than was known, asks the budget for room.
/// Without room, reading pauses.
void FramedSession::ask_for_room() {
  if (in_.empty() || frames_left_ || ended_ != nullptr) return;
  const std::size_t size = frame_size(in_, share_.frame());
  if (size <= std::max(limits::kUncountedBytes, share_.frame())) return;
  waits_for_room_ = !share_.begin_frame(size);
  if (!waits_for_room_) in_.reserve(size);
}

void FramedSession::read_on() {
  if (!std::exchange(waits_for_room_, false) || ended_ != nullptr) return;
  in_.reserve(share_.frame());
  go_on_soon();
}

void FramedSession::close_for_room(const Failure& reason) {
  if (ended_ != nullptr) return;
  log_refusal(reason);
  // If the outbox is not empty, a frame may be half sent. No reply must follow half a frame.
  if (outbox_->empty()) send_refusal(reason);
  end(kNoRoom);
}

/// Takes the complete frames at the beginning of `in`, but stops if the rest has to wait for a
/// later turn. Returns how many bytes were taken.
std::size_t FramedSession::take_frames(std::string_view in) {
  arrived_ns_ = Duration(shard_.loop().now().time_since_epoch()).count();
  taken_turn_ = shard_.turn();
  frames_left_ = false;
  std::size_t used = 0;
  while (ended_ == nullptr && !frames_left_) {
    const Taken taken = take_frame(in.substr(used));
    frames_left_ = taken.rest;
    used += taken.size;
    if (taken.size == 0 || used == in.size()) break;
  }
  return used;
}

void FramedSession::log_refusal(const Failure& reason) {
  context_.metrics.protocol_error(protocol_, reason.code);
  log_refused(name_of(protocol_), stream_->peer(), reason);
}

void FramedSession::end(const char* reason) {
  if (ended_ != nullptr) return;
  ended_ = reason;
  ending();
  stream_->cancel();
  asio::post(shard_.loop(), [self = self()] { self->clean_up(); });
}

}  // namespace c10dd::daemon
