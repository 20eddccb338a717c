// SPDX-License-Identifier: Apache-2.0
// Serves a TCPStore connection on the loop of its run's shard: opens a session, which ends with the
// connection, and carries the bytes of a tcpstore::TcpStoreDialogue.
#include "daemon/net/tcpstore_session.h"

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <utility>

#include "daemon/core/host/job_host.h"
#include "daemon/core/job/job.h"
#include "daemon/metrics/metrics.h"
#include "daemon/net/answer_watch.h"
#include "daemon/net/framed_session.h"
#include "daemon/shard/shard.h"
#include "protocol/limits.h"
#include "protocol/random.h"

namespace c10dd::daemon {
namespace {

/// How long a client that may have sent a half message gets to send the rest.
constexpr std::chrono::milliseconds kAmbiguous{100};

/// Returns an ID that no other session has.
SessionId random_session() { return {random_number(), random_number()}; }

class TcpStoreSession final : public core::ReplySink,
                              public FramedSession,
                              private tcpstore::RequestSink,
                              private AnswerWatch::Watched,
                              public std::enable_shared_from_this<TcpStoreSession> {
 public:
  TcpStoreSession(std::shared_ptr<Stream> stream, TcpStoreConnection connection, Shard& shard)
      : FramedSession(Protocol::tcpstore, std::move(stream), connection.listener->context, shard),
        connection_(std::move(connection)),
        dialogue_(connection_.dialogue),
        timer_(shard.loop()) {}

  void start();

  void deliver(std::uint32_t channel, const core::OutgoingReply& reply, const Stamp&) override;
  void end_session(std::uint32_t channel, const Failure& reason) override;
  void flush() override { outbox().flush(); }

 private:
  std::shared_ptr<FramedSession> self() override { return shared_from_this(); }
  Taken take_frame(std::string_view in) override;
  std::size_t frame_size(std::string_view in, std::size_t counted) const override;
  const core::JobRef& newest_job() const override { return job_; }
  bool may_take() const override {
    return attachment_ && !asking_ && !dialogue_.is_paused() && !context().draining;
  }
  void drained() override { read_on_soon(); }
  void ending() override {
    timer_.cancel();
    AnswerWatch::of(shard().loop()).remove(*this);
  }
  void leave_jobs() override;
  bool submit(std::uint64_t sequence, const Request& request) override;
  void look_at_peer() override;

  void opened(const core::JobRef& job, const core::AttachmentRef& attachment);
  bool must_ask(std::string_view in);
  void note_whether_peer_answers(bool answers);
  void settle_later();
  void read_on_soon();
  void refuse(const Failure& reason);
  core::JobHost& host() { return shard().host(); }

  TcpStoreConnection connection_;
  tcpstore::TcpStoreDialogue& dialogue_;
  core::JobRef job_;                ///< null before the session is open
  core::AttachmentRef attachment_;  ///< null before the session is open
  bool asking_ = false;             ///< whether the next message may be taken
  bool asked_ = false;              ///< the next message may be taken
  bool peer_answers_ = true;        ///< as the job knows it
  core::SteadyTime look_again_;     ///< before, the peer cannot count as silent
  asio::steady_timer timer_;
};

void TcpStoreSession::start() {
  begin(std::move(connection_.in));
  Hello hello;
  hello.session = random_session();
  hello.job = connection_.listener->settings.tcpstore_job;
  hello.run = connection_.run;
  hello.host = connection_.client.address;
  hello.pid = connection_.client.pid;
  hello.fleeting = true;
  hello.c10d = true;
  if (const std::uint32_t size = connection_.listener->settings.world_size) {
    hello.labels["world_size"] = std::to_string(size);
  }
  const auto on_open = [self = shared_from_this()](const core::JobRef& job,
                                                   const core::AttachmentRef& attachment) {
    self->opened(job, attachment);
  };
  host().hello(
      {shared_from_this(), 0, 0, connection_.client.connection, std::move(hello), on_open});
}

void TcpStoreSession::opened(const core::JobRef& job, const core::AttachmentRef& attachment) {
  if (ended()) return host().detach(job, attachment);
  job_ = job;
  attachment_ = attachment;
  // Only the host of the job can tell whether a wait is blocked.
  if (&job->owner != &host()) {
    return refuse(core::unavailable("the run has moved to another shard"));
  }
  connection_.listener->runs->opened(
      connection_.client.connection,
      [weak = weak_from_this(), &loop = shard().loop()](Failure reason) {
        asio::post(loop, [weak, reason = std::move(reason)] {
          if (const auto self = weak.lock()) self->refuse(reason);
        });
      });
  if (!stream().is_local()) AnswerWatch::of(shard().loop()).add(*this);
  go_on_soon();
}

void TcpStoreSession::look_at_peer() {
  const core::SteadyTime now = shard().loop().now();
  if (now < look_again_) return;
  const PeerSigns signs = stream().peer_signs();
  look_again_ = now + answers_for(signs);
  note_whether_peer_answers(answers(signs));
}

/// Tells the job of a change only.
void TcpStoreSession::note_whether_peer_answers(bool answers) {
  if (std::exchange(peer_answers_, answers) == answers) return;
  host().answers(job_, connection_.client.connection, answers);
}

// ---- messages ----------------------------------------------------------------------------------

FramedSession::Taken TcpStoreSession::take_frame(std::string_view in) {
  if (!may_take() || must_ask(in)) return {0, true};
  Bytes out;
  const std::size_t used = dialogue_.take(in, *this, out);
  asked_ = asked_ && used == 0;
  if (!out.empty()) {
    outbox().add([&](Bytes& bytes) {
      bytes.append(out);
      return SharedBytes{};
    });
    outbox().flush();
  }
  if (dialogue_.over()) refuse(*dialogue_.over());
  if (dialogue_.is_ambiguous()) settle_later();
  if (used == 0) return {0, dialogue_.is_paused()};
  note_whether_peer_answers(true);
  return {used, host().charge(job_, used)};
}

bool TcpStoreSession::submit(std::uint64_t sequence, const Request& request) {
  shard().tally().request(Protocol::tcpstore, info_of(request));
  // Nobody repeats a request of this session, so all earlier replies count as acknowledged.
  const core::CallId call{
      .sequence = sequence, .acked_below = sequence, .fingerprint = 0, .arrived_ns = arrived_ns()};
  return host().submit(job_, attachment_, call, request) == core::Submitted::blocked;
}

/// Asks whether the next message may be taken, if it concerns other connections of the run. Returns
/// true if the reply is missing.
bool TcpStoreSession::must_ask(std::string_view in) {
  if (asked_) return false;
  TcpStoreRuns& runs = *connection_.listener->runs;
  const auto head = dialogue_.look(in);
  if (!head || !*head || !runs.concerns(**head)) return false;
  asking_ = true;
  runs.ask(connection_.client.connection, **head, job_->job && job_->job->stats().waiters > 0,
           [self = shared_from_this()](const Result<void>& may) {
             asio::post(self->shard().loop(), [self, may] {
               self->asking_ = false;
               self->asked_ = true;
               if (!may) return self->refuse(may.error());
               self->go_on_soon();
             });
           });
  return true;
}

std::size_t TcpStoreSession::frame_size(std::string_view in, std::size_t counted) const {
  const std::size_t needed = in.empty() ? 0 : dialogue_.needed();
  if (needed <= std::max(counted, limits::kSmallFrameBytes)) return needed;
  // The size of a list becomes known text by text. So that a long list does not ask for each, it
  // asks for twice as much as it has.
  return std::max(needed, std::min(2 * in.size(), limits::kTcpStoreMessageBytes));
}

/// Decides after a while what ambiguous bytes mean, unless more bytes come.
void TcpStoreSession::settle_later() {
  timer_.expires_after(kAmbiguous);
  timer_.async_wait([self = shared_from_this()](const ErrorCode& cancelled) {
    if (cancelled || self->ended() || !self->dialogue_.is_ambiguous()) return;
    self->dialogue_.settle_ambiguous();
    self->take_again();
  });
}

// ---- replies -----------------------------------------------------------------------------------

void TcpStoreSession::deliver(std::uint32_t, const core::OutgoingReply& reply, const Stamp&) {
  if (ended()) return;
  if (reply.op == Hello::op.code) {
    if (!reply.result) refuse(reply.result.error());
    return;
  }
  const bool paused = dialogue_.is_paused();
  outbox().add([&](Bytes& out) {
    dialogue_.reply(reply.sequence, reply.result, out);
    return SharedBytes{};
  });
  set_held(dialogue_.held_bytes());
  if (dialogue_.over()) return refuse(*dialogue_.over());
  read_on_soon();
  if (paused && !dialogue_.is_paused()) go_on_soon();
}

/// Requests the next page of a long reply when the client has taken most of the pages before. Does
/// so in a handler of its own, because the caller may be a job's host.
void TcpStoreSession::read_on_soon() {
  if (!dialogue_.has_more() || outbox().over_soft_limit()) return;
  asio::post(shard().loop(), [self = shared_from_this()] {
    if (!self->ended() && !self->outbox().over_soft_limit()) self->dialogue_.read_on(*self);
  });
}

void TcpStoreSession::end_session(std::uint32_t, const Failure& reason) { refuse(reason); }

/// Ends the connection. The client notices only the end, so the reason goes to the log.
void TcpStoreSession::refuse(const Failure& reason) {
  if (ended()) return;
  log_refusal(reason);
  end("refused");
}

void TcpStoreSession::leave_jobs() {
  if (job_) host().detach(job_, attachment_);
  end_tcpstore(connection_);
}

}  // namespace

void serve_tcpstore(std::shared_ptr<Stream> stream, TcpStoreConnection connection, Shard& shard) {
  std::make_shared<TcpStoreSession>(std::move(stream), std::move(connection), shard)->start();
}

}  // namespace c10dd::daemon
