// SPDX-License-Identifier: Apache-2.0
// Serves the native protocol on one connection. core::NativeChannels handles the requests in the
// frames. A malformed frame gets a reply and ends the connection; the client can resume its
// sessions on another connection. A connection stays on the loop of one shard. That shard passes on
// the requests for jobs of other shards.
#include "daemon/net/native_session.h"

#include <boost/asio/steady_timer.hpp>
#include <utility>

#include "daemon/core/host/native_channels.h"
#include "daemon/net/framed_session.h"
#include "daemon/net/rechecks.h"
#include "protocol/limits.h"
#include "protocol/native_wire.h"

namespace c10dd::daemon {
namespace {

constexpr unsigned kSilentChecks = 4;  // a connection survives this many checks without a frame

/// Serves one native connection: cuts frames for its channels, and sends their replies.
class NativeSession final : public core::NativeConnection,
                            public FramedSession,
                            public Recheckable {
 public:
  NativeSession(std::shared_ptr<Stream> stream, const SessionContext& context, Shard& shard)
      : FramedSession(Protocol::native, std::move(stream), context, shard),
        channels_(shard.host(), next_connection(), *this),
        client_(FramedSession::stream().address().to_string()),
        deadline_(shard.loop()) {}

  void start();

  // ---- the sink of its sessions
  void deliver(std::uint32_t channel, const core::OutgoingReply& reply,
               const Stamp& stamp) override {
    channels_.deliver(channel, reply, stamp);
  }
  void end_session(std::uint32_t channel, const Failure& reason) override {
    channels_.end_session(channel, reason);
  }
  void flush() override { outbox().flush(); }

 private:
  std::shared_ptr<NativeSession> shared_self() {
    return std::static_pointer_cast<NativeSession>(shared_from_this());
  }
  std::shared_ptr<FramedSession> self() override { return shared_self(); }
  Taken take_frame(std::string_view in) override;
  std::size_t frame_size(std::string_view in, std::size_t counted) const override;
  const core::JobRef& newest_job() const override { return channels_.last_job(); }
  void send_refusal(const Failure& reason) override;
  void heard() override { channels_.heard(); }
  void ending() override { deadline_.cancel(); }
  void leave_jobs() override { channels_.close_sessions(); }

  void send(const native::ReplyHeader& header, const Reply& reply) override;
  void refuse_bytes(const native::RequestHeader& header, const Failure& reason) override;
  void taken(const OpInfo& op) override { shard().tally().request(Protocol::native, op); }
  std::string client() const override { return client_; }
  Result<core::Caller> authenticate(const std::string& credential, const std::string& job) override;
  void admitted(const std::string& principal, const std::string& job) override {
    if (context().note_admitted) context().note_admitted(principal, job, stream());
  }
  void recheck() override {
    if (ended()) return;
    rechecks_ = true;
    channels_.recheck();
    rechecks_ = false;
  }
  void unknown_op() override {
    context().metrics.protocol_error(Protocol::native, Code::unknown_op);
  }
  void check_silence();

  core::NativeChannels channels_;
  const std::string client_;     // its address
  asio::steady_timer deadline_;  // the deadline of the hello, then the time of each check_silence()
  std::uint64_t heard_turn_ = 0;  // the value of taken_turn() at the last check for silence
  unsigned silent_checks_ = 0;    // in a row
  bool rechecks_ = false;         // asks again who the clients are
};

void NativeSession::start() {
  deadline_.expires_after(context().hello_deadline);
  deadline_.async_wait([self = shared_self()](const ErrorCode& cancelled) {
    if (cancelled) return;
    if (!self->channels_.greeted()) return self->end("hello_deadline");
    self->check_silence();
  });
  Bytes in = stream().take_head();
  in.erase(0, native::kMagic.size());
  begin(std::move(in));
}

Result<core::Caller> NativeSession::authenticate(const std::string& credential,
                                                 const std::string& job) {
  if (!context().caller_of) return core::Caller{};
  Result<core::Caller> caller = context().caller_of(credential, job, stream());
  if (!rechecks_) context().count_caller(caller, stream());
  if (!caller) log_refusal(caller.error());
  if (caller && caller->valid_for > Duration::zero()) {
    context().rechecks->at(shared_self(), stream().executor(),
                           std::chrono::steady_clock::now() + caller->valid_for);
  }
  return caller;
}

/// Ends the connection if no frame arrives within the idle time-out. Counts checks and does not
/// measure time, because after a pause of the process only one check is due. Thus a pause alone
/// closes no connection.
void NativeSession::check_silence() {
  if (ended()) return;
  silent_checks_ = heard_turn_ == taken_turn() ? silent_checks_ + 1 : 0;
  heard_turn_ = taken_turn();
  if (silent_checks_ > kSilentChecks) return end("idle");
  deadline_.expires_after(context().options.idle_timeout / kSilentChecks);
  deadline_.async_wait([self = shared_self()](const ErrorCode& cancelled) {
    if (!cancelled) self->check_silence();
  });
}

FramedSession::Taken NativeSession::take_frame(std::string_view in) {
  const std::size_t limit = channels_.opened() ? limits::kFrameBytes : limits::kHelloFrameBytes;
  const auto frame = native::cut_request(in, limit);
  if (!frame) refuse_bytes({}, frame.error());
  if (!frame || !frame->has_value()) return {};
  return {(*frame)->size, channels_.take(**frame, arrived_ns())};
}

std::size_t NativeSession::frame_size(std::string_view in, std::size_t) const {
  // The length was not checked before the header is complete.
  return in.size() < native::RequestHeader::kSize ? 0 : native::request_size(in);
}

void NativeSession::send_refusal(const Failure& reason) {
  native::RequestHeader header;
  header.op = Hello::op.code;
  channels_.reply(header, reason);
}

void NativeSession::send(const native::ReplyHeader& header, const Reply& reply) {
  outbox().add([&](Bytes& out) { return native::encode_reply(out, header, reply); });
}

void NativeSession::refuse_bytes(const native::RequestHeader& header, const Failure& reason) {
  log_refusal(reason);
  channels_.reply(header, reason);
  end("refused");
}

}  // namespace

void serve_native(std::shared_ptr<Stream> stream, const SessionContext& context, Shard& shard) {
  context.metrics.connection_opened(Protocol::native);
  std::make_shared<NativeSession>(std::move(stream), context, shard)->start();
}

}  // namespace c10dd::daemon
