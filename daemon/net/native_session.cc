// SPDX-License-Identifier: Apache-2.0
// Serves the native protocol on one connection. NativeSession reads and writes the bytes, shares
// the loop fairly with other connections, and enforces the time-outs. The base class
// core::NativeChannels handles the requests in the frames. A frame is decoded as a whole before it
// has an effect. A malformed frame gets a reply and ends the connection; the client can resume its
// sessions on another connection. A connection stays on the loop of one shard. That shard passes on
// the requests for jobs of other shards.
#include "daemon/net/native_session.h"

#include <spdlog/spdlog.h>

#include <array>
#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>

#include "daemon/core/host/native_channels.h"
#include "daemon/net/outbox.h"
#include "daemon/net/shared_budget.h"
#include "daemon/shard/shard.h"
#include "protocol/limits.h"
#include "protocol/native_wire.h"
#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd::daemon {
namespace {

constexpr std::size_t kReadBytes = 256 * 1024;
constexpr std::size_t kFirstBytes = 384;  // the buffer of a connection that waits for bytes
constexpr unsigned kSilentChecks = 4;     // a connection survives this many checks without a frame
constexpr const char* kNoRoom = "quota_exceeded";

/// Returns a new number, by which jobs identify a connection. Never returns a number twice.
std::uint64_t next_connection() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

/// Serves one native connection. The coroutine run() reads and waits; replies come through the
/// functions of ReplySink. All functions are called on the loop of the shard and the stream.
class NativeSession final : public core::NativeChannels, public BudgetSink {
 public:
  NativeSession(std::shared_ptr<Stream> stream, const SessionContext& context, Shard& shard)
      : NativeChannels(shard.host(), next_connection()),
        stream_(std::move(stream)),
        context_(context),
        shard_(shard),
        wakeup_(stream_->executor()),
        deadline_(stream_->executor()),
        share_(context.budget) {}

  asio::awaitable<void> run();

  void flush() override {
    if (outbox_) outbox_->flush();
  }

  asio::any_io_executor budget_executor() override { return stream_->executor(); }
  void read_on() override;
  void close_for_room(const Failure& reason) override;

 private:
  std::shared_ptr<NativeSession> shared_self() {
    return std::static_pointer_cast<NativeSession>(shared_from_this());
  }
  void send(const native::ReplyHeader& header, const Reply& reply) override;
  void refuse_bytes(const native::RequestHeader& header, const Failure& reason) override;
  void taken(const OpInfo& op) override;
  void unknown_op() override;
  void check_silence();
  bool is_paused() const;
  asio::awaitable<void> wait_for_turn();
  bool must_wait_for_turn() const;
  bool read();
  void take_in();
  void ask_for_room();
  std::size_t take_frames(std::string_view in);
  void log_refusal(const Failure& reason);
  void end(const char* reason);

  std::shared_ptr<Stream> stream_;
  const SessionContext& context_;
  Shard& shard_;
  asio::steady_timer wakeup_;    // run() waits on this timer; cancel() wakes run()
  asio::steady_timer deadline_;  // the deadline of the hello, then the time of each check_silence()
  std::shared_ptr<Outbox> outbox_;
  std::array<char, kFirstBytes> first_;
  std::size_t first_bytes_ = 0;
  ErrorCode read_failed_;
  BudgetShare share_;
  Bytes in_;                      // bytes of frames that are incomplete or left for a later turn
  bool waits_for_room_ = false;   // the budget has no room yet for a large frame
  bool frames_left_ = false;      // in_ may begin with whole frames
  std::uint64_t taken_turn_ = 0;  // the turn in which frames were last taken
  std::uint64_t heard_turn_ = 0;  // the value of taken_turn_ at the last check for silence
  unsigned silent_checks_ = 0;    // in a row
  const char* ended_ = nullptr;   // metric label: why run() must end; null: run() goes on
  std::int64_t arrived_ns_ = 0;   // time on the steady clock when frames were last taken
};

asio::awaitable<void> NativeSession::run() {
  const auto self = shared_self();
  share_.belong_to(self);
  outbox_ = std::make_shared<Outbox>(
      stream_,
      Outbox::Callbacks{[this] { wakeup_.cancel(); }, [this](const char* reason) { end(reason); },
                        [this](std::size_t bytes) { share_.set_replies(bytes); }});
  in_ = stream_->take_head();
  in_.erase(0, native::kMagic.size());
  deadline_.expires_after(context_.hello_deadline);
  deadline_.async_wait([self](const ErrorCode& cancelled) {
    if (cancelled) return;
    if (!self->opened()) return self->end("hello_deadline");
    self->check_silence();
  });
  take_in();
  while (ended_ == nullptr) {
    while (is_paused() && ended_ == nullptr) {
      wakeup_.expires_at(asio::steady_timer::time_point::max());
      co_await wakeup_.async_wait(asio::as_tuple(asio::use_awaitable));
    }
    if (!frames_left_) {
      const std::size_t n = co_await stream_->read_next(asio::buffer(first_), read_failed_);
      first_bytes_ = n;
    }
    while (must_wait_for_turn() && ended_ == nullptr) co_await wait_for_turn();
    if (ended_ != nullptr) break;
    if (frames_left_) {
      take_in();
    } else if (!read()) {
      end("peer");
    }
  }
  // Sends only the bytes that the kernel takes without waiting; abandon() drops the others.
  // abandon() also drops the callbacks, because they use this session, and a pending write may keep
  // the outbox alive longer than the session.
  outbox_->flush();
  outbox_->abandon();
  Bytes().swap(in_);
  share_.leave();
  close_sessions();
  context_.metrics.connection_closed(Protocol::native, ended_);
  if (ended_ == kNoRoom) {
    co_await stream_->finish_unread();
  } else {
    co_await stream_->finish();
  }
}

/// Returns true while the connection must not be read: too many reply bytes wait for the peer to
/// read them, or the budget has no room for the frame that is arriving.
bool NativeSession::is_paused() const {
  return outbox_->over_soft_limit() || waits_for_room_ ||
         (outbox_->over_small_limit() && share_.budget().scarce());
}

/// Ends the connection if no frame arrives within the idle time-out. Counts checks and does not
/// measure time, because after a pause of the process only one check is due. Thus a pause alone
/// closes no connection.
void NativeSession::check_silence() {
  if (ended_ != nullptr) return;
  silent_checks_ = heard_turn_ == taken_turn_ ? silent_checks_ + 1 : 0;
  heard_turn_ = taken_turn_;
  if (silent_checks_ > kSilentChecks) return end("idle");
  deadline_.expires_after(context_.options.idle_timeout / kSilentChecks);
  deadline_.async_wait([self = shared_self()](const ErrorCode& cancelled) {
    if (!cancelled) self->check_silence();
  });
}

/// Returns true if the connection must take no bytes before the next turn of the loop: it has
/// already taken bytes in this turn, or its job has used its share of the turn.
bool NativeSession::must_wait_for_turn() const {
  return taken_turn_ == shard_.turn() || (last_job() && shard_.spent(last_job()));
}

asio::awaitable<void> NativeSession::wait_for_turn() {
  wakeup_.expires_at(asio::steady_timer::time_point::max());
  shard_.rest([self = shared_self()] { self->wakeup_.cancel(); }, taken_turn_ == shard_.turn());
  co_await wakeup_.async_wait(asio::as_tuple(asio::use_awaitable));
}

/// Takes the bytes that have arrived. Returns false at the end of the connection. If the bytes fill
/// the small buffer first_, continues in a large buffer that all connections of the thread share.
/// Thus an idle connection holds no large buffer.
bool NativeSession::read() {
  if (read_failed_) return false;
  static thread_local Bytes scratch(kReadBytes, '\0');
  std::string_view bytes(first_.data(), first_bytes_);
  if (first_bytes_ == first_.size()) {
    bytes.copy(scratch.data(), bytes.size());
    ErrorCode failed;  // ignored: if this read fails, the next read fails, too
    const bool small = share_.budget().scarce() && !share_.has_frame();
    const std::size_t most = small ? limits::kSmallFrameBytes : kReadBytes;
    const std::size_t more =
        stream_->read_now(asio::buffer(scratch.data(), most) + bytes.size(), failed);
    bytes = std::string_view(scratch).substr(0, bytes.size() + more);
  }
  if (in_.empty()) {
    in_ = bytes.substr(take_frames(bytes));
    ask_for_room();
  } else {
    in_.append(bytes);
    take_in();
  }
  return true;
}

/// Takes the complete frames at the beginning of in_, and keeps the rest.
void NativeSession::take_in() {
  const std::size_t used = take_frames(in_);
  in_.erase(0, used);
  if (used > 0) share_.end_frame();
  ask_for_room();
  const bool small = in_.size() <= limits::kSmallFrameBytes && !share_.has_frame();
  if (small && in_.capacity() > limits::kSmallFrameBytes) in_.shrink_to_fit();
}

/// If the frame that is arriving is large, asks the budget for room. Without room, reading pauses.
void NativeSession::ask_for_room() {
  if (frames_left_ || ended_ != nullptr) return;
  const std::size_t size = native::request_size(in_);
  if (size <= limits::kSmallFrameBytes || share_.has_frame()) return;
  waits_for_room_ = !share_.begin_frame(size);
  if (!waits_for_room_) in_.reserve(size);
}

void NativeSession::read_on() {
  if (!std::exchange(waits_for_room_, false) || ended_ != nullptr) return;
  in_.reserve(native::request_size(in_));
  wakeup_.cancel();
}

void NativeSession::close_for_room(const Failure& reason) {
  if (ended_ != nullptr) return;
  log_refusal(reason);
  native::RequestHeader header;
  header.op = Hello::op.code;
  // If the outbox is not empty, a frame may be half sent. No reply must follow half a frame.
  if (outbox_->empty()) reply(header, reason);
  end(kNoRoom);
}

/// Takes the complete frames at the beginning of `in`, but stops if a job has used its share of the
/// turn. Returns how many bytes were taken.
std::size_t NativeSession::take_frames(std::string_view in) {
  arrived_ns_ =
      std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch())
          .count();
  taken_turn_ = shard_.turn();
  frames_left_ = false;
  std::size_t used = 0;
  while (ended_ == nullptr && !frames_left_) {
    const std::size_t limit = opened() ? limits::kFrameBytes : limits::kHelloFrameBytes;
    const auto frame = native::cut_request(in.substr(used), limit);
    if (!frame) {
      refuse_bytes({}, frame.error());
      break;
    }
    if (!frame->has_value()) break;
    frames_left_ = take(**frame, arrived_ns_);
    used += (*frame)->size;
  }
  return used;
}

void NativeSession::taken(const OpInfo& op) { shard_.tally().request(Protocol::native, op); }

void NativeSession::unknown_op() {
  context_.metrics.protocol_error(Protocol::native, Code::unknown_op);
}

void NativeSession::send(const native::ReplyHeader& header, const Reply& reply) {
  if (outbox_) outbox_->add(native::encode_reply(header, reply));
}

void NativeSession::refuse_bytes(const native::RequestHeader& header, const Failure& reason) {
  log_refusal(reason);
  reply(header, reason);
  end("refused");
}

void NativeSession::log_refusal(const Failure& reason) {
  context_.metrics.protocol_error(Protocol::native, reason.code);
  spdlog::warn("event=refused protocol=native peer={} code={} detail={}", stream_->peer(),
               name_of(reason.code), quoted(printable(reason.detail, 512)));
}

void NativeSession::end(const char* reason) {
  if (ended_ != nullptr) return;
  ended_ = reason;
  wakeup_.cancel();
  deadline_.cancel();
  stream_->cancel();  // resumes run(), which cleans up
}

}  // namespace

void serve_native(std::shared_ptr<Stream> stream, const SessionContext& context, Shard& shard) {
  context.metrics.connection_opened(Protocol::native);
  const auto session = std::make_shared<NativeSession>(std::move(stream), context, shard);
  // The lambda keeps the session alive until run() takes its own reference.
  asio::co_spawn(
      shard.loop(), [session] { return session->run(); }, asio::detached);
}

}  // namespace c10dd::daemon
