// SPDX-License-Identifier: Apache-2.0
// The native protocol on one connection: many channels, each with a session of its own. Frames are
// decoded as a whole before anything happens; a bad frame is answered and ends the connection, the
// sessions can be resumed on another one.
#include "daemon/sessions.h"

#include <spdlog/spdlog.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <unordered_map>

#include "daemon/outbox.h"
#include "daemon/server.h"
#include "protocol/limits.h"
#include "protocol/native_wire.h"
#include "protocol/utf8.h"

namespace c10dd::daemon {
namespace {

constexpr std::size_t kReadBytes = 256 * 1024;

class NativeSession final : public AnswerSink, public std::enable_shared_from_this<NativeSession> {
 public:
  NativeSession(Stream stream, Server& server)
      : stream_(std::make_shared<Stream>(std::move(stream))),
        server_(server),
        wakeup_(stream_->executor()) {}

  asio::awaitable<void> run();

  void deliver(std::uint32_t channel, const core::Reply& reply, const Stamp& stamp) override;
  void end_session(std::uint32_t channel, const Failure& reason) override;
  void flush() override {
    if (outbox_) outbox_->flush();
  }

 private:
  struct Channel {
    JobRef job;  ///< null while its hello is under way
    core::Origin from;
  };

  bool read();
  std::size_t take_frames(std::string_view in);
  void take(const native::Frame<native::RequestHeader>& frame);
  void open(const native::RequestHeader& header, Hello hello);
  void answer(const native::RequestHeader& header, const Answer& answer);
  void refuse_bytes(const native::RequestHeader& header, Failure reason);
  void end(const char* reason);
  void close_sessions();

  std::shared_ptr<Stream> stream_;
  Server& server_;
  asio::steady_timer wakeup_;  // hello deadline; then: the outbox has room again
  std::shared_ptr<Outbox> outbox_;
  Bytes in_;  // of a frame that is not complete
  std::unordered_map<std::uint32_t, Channel> channels_;
  bool opened_ = false;  // a session was opened on this connection
  const char* ended_ = nullptr;
  std::int64_t arrived_ns_ = 0;
};

asio::awaitable<void> NativeSession::run() {
  const auto self = shared_from_this();
  outbox_ = std::make_shared<Outbox>(
      stream_, [this] { wakeup_.cancel(); }, [this](const char* reason) { end(reason); });
  in_ = stream_->take_head();
  in_.erase(0, native::kMagic.size());
  wakeup_.expires_after(limits::kHelloDeadline);
  wakeup_.async_wait([self](const ErrorCode& cancelled) {
    if (!cancelled && !self->opened_) self->end("hello_deadline");
  });
  in_.erase(0, take_frames(in_));
  while (ended_ == nullptr) {
    while (outbox_->over_soft_limit() && ended_ == nullptr) {
      wakeup_.expires_at(asio::steady_timer::time_point::max());
      co_await wakeup_.async_wait(asio::as_tuple(asio::use_awaitable));
    }
    co_await stream_->readable();
    if (ended_ == nullptr && !read()) end("peer");
  }
  outbox_->flush();
  outbox_->abandon();
  close_sessions();
  server_.metrics().connection_closed(Protocol::native, ended_);
  co_await stream_->finish();
}

/// Takes what there is; false at the end of the connection. All connections share one buffer, so
/// that an idle one holds none.
bool NativeSession::read() {
  static thread_local Bytes scratch(kReadBytes, '\0');
  ErrorCode failed;
  const std::size_t n = stream_->read_now(asio::buffer(scratch), failed);
  if (failed == asio::error::would_block) return true;
  if (failed || n == 0) return false;
  const std::string_view bytes = std::string_view(scratch).substr(0, n);
  if (in_.empty()) {
    in_ = bytes.substr(take_frames(bytes));
  } else {
    in_.append(bytes);
    in_.erase(0, take_frames(in_));
    if (in_.empty() && in_.capacity() > kReadBytes) Bytes().swap(in_);
  }
  return true;
}

/// Returns how many bytes the whole frames at the head of `in` had.
std::size_t NativeSession::take_frames(std::string_view in) {
  arrived_ns_ =
      std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch())
          .count();
  std::size_t used = 0;
  while (ended_ == nullptr) {
    const std::size_t limit = opened_ ? limits::kFrameBytes : limits::kHelloFrameBytes;
    const auto frame = native::cut_request(in.substr(used), limit);
    if (!frame) {
      refuse_bytes({}, frame.error());
      break;
    }
    if (!frame->has_value()) break;
    take(**frame);
    used += (*frame)->size;
  }
  return used;
}

void NativeSession::take(const native::Frame<native::RequestHeader>& frame) {
  const native::RequestHeader& header = frame.header;
  Result<Request> request = native::decode_request(header.op, frame.body);
  if (!request) {
    if (request.error().code == Code::unknown_op) {
      server_.metrics().protocol_error(Protocol::native, Code::unknown_op);
      return answer(header, request.error());
    }
    return refuse_bytes(header, request.error());
  }
  const OpInfo& op = info_of(*request);
  server_.metrics().request(Protocol::native, op);
  if (auto* hello = std::get_if<Hello>(&*request)) return open(header, std::move(*hello));
  const auto it = channels_.find(header.channel);
  if (it == channels_.end() || !it->second.job) {
    return answer(header,
                  failure(Code::session_unknown, "channel " + std::to_string(header.channel) +
                                                     " has no session: send hello first"));
  }
  const Channel& channel = it->second;
  if (op.access > channel.from.role) {
    return answer(header, failure(Code::permission_denied,
                                  std::string(op.name) + " is not allowed for this session"));
  }
  const core::CallId call{header.sequence, header.acked_below,
                          op.dedup == Dedup::reply ? native::fingerprint(header.op, frame.body) : 0,
                          arrived_ns_};
  server_.shard().submit(channel.job, channel.from, call, *request);
}

void NativeSession::open(const native::RequestHeader& header, Hello hello) {
  if (hello.version_min > kProtocolVersion || hello.version_max < 1) {
    return refuse_bytes(header, failure(Code::version_unsupported,
                                        "protocol versions " + std::to_string(hello.version_min) +
                                            " to " + std::to_string(hello.version_max) +
                                            " are asked for, this daemon speaks 1 to " +
                                            std::to_string(kProtocolVersion)));
  }
  if (hello.credential.size() > limits::kCredentialBytes) {
    return refuse_bytes(
        header,
        failure(Code::too_large, "hello: credential of " + std::to_string(hello.credential.size()) +
                                     " bytes, limit " + std::to_string(limits::kCredentialBytes)));
  }
  if (server_.draining()) {
    Failure reason = failure(Code::unavailable, "the daemon is shutting down");
    reason.retry_after = std::chrono::milliseconds(200);
    return answer(header, std::move(reason));
  }
  if (channels_.size() >= limits::kChannelsPerConnection && !channels_.contains(header.channel)) {
    return answer(
        header, failure(Code::quota_exceeded, "too many channels on the connection, limit " +
                                                  std::to_string(limits::kChannelsPerConnection)));
  }
  Channel& channel = channels_[header.channel];
  if (channel.job && channel.from.session != hello.session) {
    server_.shard().detach(channel.job, channel.from.session, this);
  }
  channel = {};
  channel.from.session = hello.session;
  const auto self = shared_from_this();
  server_.shard().hello(
      self, header.channel, header.sequence, std::move(hello),
      [self, number = header.channel, session = channel.from.session](const JobRef& job) {
        const auto it = self->channels_.find(number);
        if (it == self->channels_.end() || it->second.from.session != session) {
          return self->server_.shard().detach(job, session, self.get());
        }
        it->second.job = job;
        self->opened_ = true;
      });
}

void NativeSession::deliver(std::uint32_t channel, const core::Reply& reply, const Stamp& stamp) {
  if (!outbox_) return;
  native::ReplyHeader header;
  header.op = reply.op;
  header.channel = channel;
  header.sequence = reply.sequence;
  header.stamp = stamp;
  outbox_->add(native::encode_reply(header, reply.answer));
  if (reply.op == Goodbye::op.code) channels_.erase(channel);
}

void NativeSession::answer(const native::RequestHeader& header, const Answer& answer) {
  native::ReplyHeader reply;
  reply.op = header.op;
  reply.channel = header.channel;
  reply.sequence = header.sequence;
  outbox_->add(native::encode_reply(reply, answer));
  outbox_->flush();
}

void NativeSession::end_session(std::uint32_t channel, const Failure& reason) {
  const auto it = channels_.find(channel);
  if (it == channels_.end()) return;
  channels_.erase(it);
  if (!outbox_) return;
  native::RequestHeader header;
  header.channel = channel;
  header.op = Hello::op.code;
  answer(header, reason);
}

/// Bytes that cannot be trusted: says why, then ends the connection.
void NativeSession::refuse_bytes(const native::RequestHeader& header, Failure reason) {
  server_.metrics().protocol_error(Protocol::native, reason.code);
  spdlog::warn("event=refused protocol=native peer={} code={} detail=\"{}\"", stream_->peer(),
               name_of(reason.code), printable(reason.detail, 256));
  answer(header, std::move(reason));
  end("refused");
}

void NativeSession::end(const char* reason) {
  if (ended_ != nullptr) return;
  ended_ = reason;
  wakeup_.cancel();
  stream_->cancel();  // run() goes on
}

void NativeSession::close_sessions() {
  for (const auto& [number, channel] : channels_) {
    if (channel.job) server_.shard().detach(channel.job, channel.from.session, this);
  }
  channels_.clear();
}

}  // namespace

asio::awaitable<void> serve_native(Stream stream, Server& server) {
  server.metrics().connection_opened(Protocol::native);
  const auto session = std::make_shared<NativeSession>(std::move(stream), server);
  co_await session->run();
}

}  // namespace c10dd::daemon
