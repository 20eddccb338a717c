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
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
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

/// Serves one native connection. start() begins to read; the end of a read or of a wait
/// for a turn calls take_turn(), and that go_on(), which reads on. Replies come through the
/// functions of ReplySink. All functions are called on the loop of the shard and the stream. Only
/// the destructor may run on another shard's loop, which may hold the last reference: by then end()
/// has cancelled the timer and close_stream() has closed the socket, so the destructor uses neither
/// loop.
class NativeSession final : public core::NativeChannels, public BudgetSink, public StreamReader {
 public:
  NativeSession(std::shared_ptr<Stream> stream, const SessionContext& context, Shard& shard)
      : NativeChannels(shard.host(), next_connection()),
        stream_(std::move(stream)),
        context_(context),
        shard_(shard),
        deadline_(stream_->executor()),
        share_(context.budget) {}

  void start();
  void on_read(std::size_t bytes, const ErrorCode& failed) override;

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
  bool must_wait_for_turn() const;
  void wait_for_turn();
  void go_on();
  void go_on_soon();
  void take_turn();
  bool read();
  void take_in();
  void ask_for_room();
  std::size_t take_frames(std::string_view in);
  void log_refusal(const Failure& reason);
  void end(const char* reason);
  void clean_up();
  asio::awaitable<void> close_stream();

  std::shared_ptr<Stream> stream_;
  const SessionContext& context_;
  Shard& shard_;
  asio::steady_timer deadline_;  // the deadline of the hello, then the time of each check_silence()
  std::shared_ptr<Outbox> outbox_;
  std::array<char, kFirstBytes> first_;
  std::size_t first_bytes_ = 0;
  ErrorCode read_failed_;
  bool has_read_ = false;  // a read has ended, and its result was not handled yet
  bool waits_ = false;     // for a read or for a turn; then take_turn() is called
  BudgetShare share_;
  Bytes in_;                      // bytes of frames that are incomplete or left for a later turn
  bool waits_for_room_ = false;   // the budget has no room yet for a large frame
  bool frames_left_ = false;      // in_ may begin with whole frames
  std::uint64_t taken_turn_ = 0;  // the turn in which frames were last taken
  std::uint64_t heard_turn_ = 0;  // the value of taken_turn_ at the last check for silence
  unsigned silent_checks_ = 0;    // in a row
  const char* ended_ = nullptr;   // metric label: why the session has ended; null: it goes on
  std::int64_t arrived_ns_ = 0;   // time on the steady clock when frames were last taken
};

void NativeSession::start() {
  const auto self = shared_self();
  share_.belong_to(self);
  outbox_ = std::make_shared<Outbox>(
      stream_,
      Outbox::Callbacks{[this] { go_on_soon(); }, [this](const char* reason) { end(reason); },
                        [this](std::size_t bytes) { share_.set_replies(bytes); }});
  in_ = stream_->take_head();
  in_.erase(0, native::kMagic.size());
  deadline_.expires_after(context_.hello_deadline);
  deadline_.async_wait([self](const ErrorCode& cancelled) {
    if (cancelled) return;
    if (!self->opened()) return self->end("hello_deadline");
    self->check_silence();
  });
  waits_ = true;
  take_turn();
}

/// Reads the next bytes, or takes the frames that an earlier turn has left. Does nothing if the
/// session has ended, waits already, or must not read now; in the last case, go_on_soon() is called
/// when it may read again.
void NativeSession::go_on() {
  if (ended_ != nullptr || waits_ || is_paused()) return;
  waits_ = true;
  if (frames_left_) return take_turn();
  stream_->read_into(asio::buffer(first_), shared_self());
}

/// Calls go_on() from the loop, because the caller may be in the middle of taking frames.
void NativeSession::go_on_soon() {
  asio::post(shard_.loop(), [self = shared_self()] { self->go_on(); });
}

void NativeSession::on_read(std::size_t bytes, const ErrorCode& failed) {
  first_bytes_ = bytes;
  read_failed_ = failed;
  has_read_ = true;
  take_turn();
}

/// Takes frames, if necessary in a later turn. The frames are those of the last read, or those that
/// an earlier turn has left.
void NativeSession::take_turn() {
  if (ended_ != nullptr) return;
  if (must_wait_for_turn()) return wait_for_turn();
  waits_ = false;
  try {
    const bool good = std::exchange(has_read_, false) ? read() : (take_in(), true);
    return good ? go_on() : end("peer");
  } catch (const std::exception& e) {  // no memory, for example
    spdlog::error("event=session_failed protocol=native peer={} reason={}", stream_->peer(),
                  quoted(e.what()));
  }
  end("failed");
}

void NativeSession::clean_up() {
  // Sends only the bytes that the kernel takes without waiting; abandon() drops the others.
  // abandon() also drops the callbacks, because they use this session, and a pending write may keep
  // the outbox alive longer than the session.
  outbox_->flush();
  outbox_->abandon();
  Bytes().swap(in_);
  share_.leave();
  close_sessions();
  context_.metrics.connection_closed(Protocol::native, ended_);
  asio::co_spawn(
      shard_.loop(), [self = shared_self()] { return self->close_stream(); }, asio::detached);
}

asio::awaitable<void> NativeSession::close_stream() {
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

void NativeSession::wait_for_turn() {
  shard_.rest(
      [self = shared_self()] { asio::post(self->shard_.loop(), [self] { self->take_turn(); }); },
      taken_turn_ == shard_.turn());
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
    const std::size_t used = take_frames(bytes);
    if (used < bytes.size()) in_ = bytes.substr(used);
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
  if (in_.size() < native::RequestHeader::kSize) return;  // its length was not checked yet
  const std::size_t size = native::request_size(in_);
  if (size <= limits::kSmallFrameBytes || share_.has_frame()) return;
  waits_for_room_ = !share_.begin_frame(size);
  if (!waits_for_room_) in_.reserve(size);
}

void NativeSession::read_on() {
  if (!std::exchange(waits_for_room_, false) || ended_ != nullptr) return;
  in_.reserve(native::request_size(in_));
  go_on_soon();
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
  arrived_ns_ = Duration(shard_.loop().now().time_since_epoch()).count();
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
  if (!outbox_) return;
  outbox_->add([&](Bytes& out) { return native::encode_reply(out, header, reply); });
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
  deadline_.cancel();
  stream_->cancel();
  asio::post(shard_.loop(), [self = shared_self()] { self->clean_up(); });
}

}  // namespace

void serve_native(std::shared_ptr<Stream> stream, const SessionContext& context, Shard& shard) {
  context.metrics.connection_opened(Protocol::native);
  std::make_shared<NativeSession>(std::move(stream), context, shard)->start();
}

}  // namespace c10dd::daemon
