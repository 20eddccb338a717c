// SPDX-License-Identifier: Apache-2.0
// Makes the WireProtocol of TCPStore, and serves its connections until their first store request.
// Clients wait for the reply to a ping before they send anything else, so the pings are served
// here. A connection may stay here for as long as it wants.
#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <utility>

#include "daemon/metrics/metrics.h"
#include "daemon/net/admission.h"
#include "daemon/net/ended_connections.h"
#include "daemon/net/framed_session.h"
#include "daemon/net/refusal_log.h"
#include "daemon/net/relay.h"
#include "daemon/net/splice.h"
#include "daemon/net/tcpstore_session.h"
#include "daemon/shard/shard.h"
#include "protocol/format.h"
#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd::daemon {
namespace {

constexpr std::chrono::milliseconds kAskAgain{100};
constexpr unsigned char kLastFirstByte = 0x0B;  // the highest code with which a client can begin

class TcpStoreReception final : public StreamReader,
                                private tcpstore::RequestSink,
                                public std::enable_shared_from_this<TcpStoreReception> {
 public:
  /// `here`: this daemon is the owner, which has been found.
  TcpStoreReception(std::shared_ptr<Stream> stream, std::shared_ptr<TcpStoreListener> listener,
                    bool here)
      : stream_(std::move(stream)),
        listener_(std::move(listener)),
        dialogue_(listener_->settings.legacy),
        here_(here) {}

  void start() {
    stream_->outlive_outages();
    in_ = stream_->take_head();
    go_on();
  }

  void on_read(std::size_t bytes, const ErrorCode& failed) override {
    if (failed) return end("peer");
    in_.append(buffer_.data(), bytes);
    go_on();
  }

 private:
  bool submit(std::uint64_t, const Request&) override {
    C10DD_ASSERT(false);  // a message that needs a request is left to the session
    return false;
  }

  void go_on();
  void locate();
  void locate_later();
  void pass_on(std::shared_ptr<Stream> owner);
  void bind(const tcpstore::MessageHead& first);
  void move(const std::string& run);
  void refuse(const Failure& reason);
  void end(const char* reason);

  std::shared_ptr<Stream> stream_;
  const std::shared_ptr<TcpStoreListener> listener_;
  tcpstore::TcpStoreDialogue dialogue_;
  bool here_;  ///< the runs of the listener are served by this daemon
  Bytes in_;
  std::array<char, 512> buffer_;
  TcpStoreRuns::Client client_;
};

/// Takes the messages that need no store. Then binds the connection if there is a store request,
/// else reads on. Before the first message, finds the owner of the runs: it gets all messages.
void TcpStoreReception::go_on() {
  Bytes out;
  bool more = true;
  while (more) {
    const Result<std::optional<tcpstore::MessageHead>> head = dialogue_.look(in_);
    if (!head) return refuse(head.error());
    if (*head && !here_) return locate();
    if (*head && !tcpstore::is_local((*head)->query)) break;
    const std::size_t used = *head ? dialogue_.take(in_, *this, out) : 0;
    in_.erase(0, used);
    more = used > 0;
  }
  if (!out.empty()) {
    const asio::const_buffer bytes = asio::buffer(out);
    ErrorCode failed;
    if (stream_->write_now(std::span(&bytes, 1), failed) < out.size()) {
      return end(failed == asio::error::would_block || !failed ? "slow_consumer" : "peer");
    }
  }
  if (more) return bind(**dialogue_.look(in_));
  stream_->read_into(asio::buffer(buffer_), shared_from_this());
}

void TcpStoreReception::locate() {
  if (has_ended(stream_->socket())) return end("peer");
  listener_->runs->locate([self = shared_from_this()](const Result<TcpStoreRuns::Owner>& owner) {
    const SessionContext& context = self->listener_->context;
    if (!owner) return self->refuse(owner.error());
    self->here_ = owner->here();
    if (self->here_) return self->go_on();
    context.relay->connect(self->stream_->peer(), self->listener_->settings, owner->addresses,
                           [self](const Result<std::shared_ptr<Stream>>& link) {
                             if (link) return self->pass_on(*link);
                             // Who waits for room holds a place that others wait for.
                             const bool no_room = link.error().code == Code::quota_exceeded;
                             no_room ? self->refuse(link.error()) : self->locate_later();
                           });
  });
}

/// The owner could not be reached, or it is the owner no more.
void TcpStoreReception::locate_later() {
  if (listener_->context.draining) return end("drain");
  const auto timer = std::make_shared<asio::steady_timer>(stream_->executor(), kAskAgain);
  timer->async_wait([self = shared_from_this(), timer](const ErrorCode& cancelled) {
    if (!cancelled) self->locate();
  });
}

void TcpStoreReception::pass_on(std::shared_ptr<Stream> owner) {
  const bool old = dialogue_.dialect() != tcpstore::Dialect::v;
  const auto address = stream_->address();
  if (old) listener_->silent.old_client_began(address);
  splice(stream_, std::exchange(in_, {}), std::move(owner), [listener = listener_, old, address] {
    if (old) listener->silent.old_client_ended(address);
    listener->context.metrics.connection_closed(Protocol::tcpstore, "peer");
  });
}

void TcpStoreReception::bind(const tcpstore::MessageHead& first) {
  client_ = {next_connection(), stream_->address().to_string(), dialogue_.pid().value_or(0),
             stream_->socket()};
  listener_->runs->bind(client_, first, [self = shared_from_this()](Result<std::string> run) {
    if (run) return self->move(*run);
    self->refuse(run.error());
  });
}

/// Moves the connection to the loop of the run's shard.
void TcpStoreReception::move(const std::string& run) {
  const SessionContext& context = listener_->context;
  const Result<Shard*> found = context.shard_of
                                   ? context.shard_of(listener_->settings.tcpstore_job, run, {})
                                   : Result<Shard*>(&context.first);
  if (!found) {
    listener_->runs->ended(client_.connection);
    return refuse(found.error());
  }
  Shard& shard = **found;
  const auto connection = std::make_shared<TcpStoreConnection>(TcpStoreConnection{
      listener_, client_, stream_->address(), run, std::move(dialogue_), std::move(in_)});
  if (connection->dialogue.dialect() != tcpstore::Dialect::v) {
    listener_->silent.old_client_began(connection->address);
  }
  if (&shard == &context.first) {
    return serve_tcpstore(std::move(stream_), std::move(*connection), shard);
  }
  const bool moves =
      stream_->move_to(shard.loop(), [connection, &shard](std::shared_ptr<Stream> moved) {
        serve_tcpstore(std::move(moved), std::move(*connection), shard);
      });
  if (moves) return;
  end_tcpstore(*connection);
  end("peer");
}

void TcpStoreReception::refuse(const Failure& reason) {
  listener_->context.metrics.protocol_error(Protocol::tcpstore, reason.code);
  log_refused(name_of(Protocol::tcpstore), stream_->peer(), reason);
  if (reason.code != Code::quota_exceeded) return end("refused");
  // The next one may take the place at once. The last reference to the stream closes it.
  stream_->give_place_free();
  listener_->context.metrics.connection_closed(Protocol::tcpstore, "refused");
}

void TcpStoreReception::end(const char* reason) {
  listener_->context.metrics.connection_closed(Protocol::tcpstore, reason);
  asio::co_spawn(
      stream_->executor(), [stream = stream_] { return stream->finish(); }, asio::detached);
}

/// Serves a connection that the metrics count already.
void receive(std::shared_ptr<Stream> stream, std::shared_ptr<TcpStoreListener> listener,
             bool here = false) {
  std::make_shared<TcpStoreReception>(std::move(stream), std::move(listener), here)->start();
}

Match recognise_tcpstore(std::string_view head) {
  return static_cast<unsigned char>(head.front()) <= kLastFirstByte ? Match::yes : Match::no;
}

}  // namespace

TcpStoreListener::TcpStoreListener(const SessionContext& its_context, ListenerSettings its_settings,
                                   std::shared_ptr<TcpStoreRuns> its_runs,
                                   std::function<std::shared_ptr<const void>()> its_count)
    : context(its_context),
      settings(std::move(its_settings)),
      runs(std::move(its_runs)),
      count(std::move(its_count)),
      silent(
          [this](std::shared_ptr<Stream> stream) {
            receive(std::move(stream), shared_from_this());
          },
          [this] { context.metrics.connection_closed(Protocol::tcpstore, "silent"); }) {}

void TcpStoreListener::begin(Stream& stream) {
  context.metrics.connection_opened(Protocol::tcpstore);
  if (count) stream.keep(count());
  if (context.admission) stream.also_count(context.admission->of_tcpstore());
}

void end_tcpstore(const TcpStoreConnection& connection) {
  connection.listener->runs->ended(connection.client.connection);
  if (connection.dialogue.dialect() == tcpstore::Dialect::v) return;
  asio::post(connection.listener->context.first.loop(),
             [listener = connection.listener, address = connection.address] {
               listener->silent.old_client_ended(address);
             });
}

void receive_passed_on(std::shared_ptr<Stream> stream,
                       const std::shared_ptr<TcpStoreListener>& listener) {
  listener->begin(*stream);
  receive(std::move(stream), listener, true);
}

WireProtocol tcpstore_protocol(const std::shared_ptr<TcpStoreListener>& listener) {
  WireProtocol entry;
  entry.protocol = Protocol::tcpstore;
  entry.recognise = recognise_tcpstore;
  entry.admits = [listener](const Stream& stream) -> Result<void> {
    if (stream.is_local() || listener->settings.tcpstore_from.has(stream.address())) {
      const Admission* const admission = listener->context.admission;
      return admission ? admission->may_enter_tcpstore() : Result<void>();
    }
    return failure(Code::permission_denied,
                   "TCPStore is not allowed from {}, because it has no authentication; add the "
                   "address to --tcpstore-from",
                   stream.address().to_string());
  };
  entry.keep_silent = [listener](const std::shared_ptr<Stream>& stream) {
    const bool kept = listener->silent.keep(stream);
    if (kept) listener->begin(*stream);
    return kept;
  };
  entry.serve = [listener](std::shared_ptr<Stream> stream) {
    listener->begin(*stream);
    receive(std::move(stream), listener);
  };
  // The protocol has no message for a failure: a server closes the connection.
  entry.refusal = [](const Failure&) { return std::string(); };
  return entry;
}

}  // namespace c10dd::daemon
