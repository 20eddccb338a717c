// SPDX-License-Identifier: Apache-2.0
#include "daemon/net/relay.h"

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "daemon/metrics/metrics.h"
#include "daemon/net/plain_stream.h"
#include "daemon/net/refusal_log.h"
#include "daemon/shard/caused_log.h"
#include "protocol/address.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/native_wire.h"
#include "protocol/parse.h"
#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd::daemon {
namespace {

using asio::ip::tcp;

auto frame_of(std::string_view head) {
  return native::cut_request(head.substr(native::kMagic.size()), limits::kHelloFrameBytes);
}

Result<tcp::endpoint> endpoint_of(const std::string& peer) {
  const auto parts = split_address(peer);
  if (parts && parts->port) {
    ErrorCode failed;
    const auto address = asio::ip::make_address(std::string(parts->host), failed);
    const auto port = parse_number<std::uint16_t>(*parts->port);
    if (!failed && port) return tcp::endpoint(address, *port);
  }
  return failure(Code::malformed, "the relay frame has an invalid client address \"{}\"",
                 printable(peer, limits::kNameBytes));
}

void log_not_taken(const std::string& owner, const std::string& client, const Failure& reason) {
  const auto address = split_address(client);
  log_caused(address ? address->host : client, LogLevel::warn,
             "event=not_passed_on owner={} client={} code={} detail={}", owner, client,
             name_of(reason.code), Sentence{printable(reason.detail, 512)});
}

/// Reads the reply of an owner to the frame.
asio::awaitable<Result<void>> read_reply(Stream& stream) {
  std::string in;
  std::array<char, 512> buffer;
  while (true) {
    const auto reply = native::cut_relay_reply(in);
    if (!reply) co_return reply.error();
    if (reply->has_value()) co_return (*reply)->taken;
    ErrorCode failed;
    const std::size_t n = co_await stream.read_next(asio::buffer(buffer), failed);
    if (failed) {
      const std::string why = stream.failure_text();
      co_return core::unavailable("no reply: " + (why.empty() ? failed.message() : why));
    }
    in.append(buffer.data(), n);
  }
}

}  // namespace

// ---- the relay ----------------------------------------------------------------------------------

void Relay::connect(const std::string& client, const ListenerSettings& settings,
                    const std::vector<std::string>& addresses,
                    std::function<void(Result<std::shared_ptr<Stream>>)> then) {
  native::RelayFrame frame;
  frame.peer = client;
  frame.job = settings.tcpstore_job;
  frame.run = settings.tcpstore_run;
  frame.legacy = settings.legacy;
  asio::co_spawn(of_.loop, connect_to_any(addresses, std::move(frame), std::move(then)),
                 asio::detached);
}

asio::awaitable<void> Relay::connect_to_any(
    std::vector<std::string> addresses, native::RelayFrame frame,
    std::function<void(Result<std::shared_ptr<Stream>>)> then) {
  for (const std::string& address : addresses) {
    const store::DaemonFacts* const owner = of_.directory.fleet()->daemon_at(address);
    frame.key = owner ? owner->relay_key : native::RelayKey();
    const Result<std::shared_ptr<Stream>> link =
        co_await connect_to(address, owner && owner->tls, frame);
    if (link || link.error().code == Code::quota_exceeded) co_return then(link);
    log_not_taken(address, frame.peer, link.error());
  }
  then(core::unavailable("the daemon that owns the job did not accept the connection"));
}

asio::awaitable<Result<std::shared_ptr<Stream>>> Relay::connect_to(
    const std::string& address, bool tls, const native::RelayFrame& frame) {
  if (!frame.key.is_set()) {
    co_return core::unavailable(
        "the owner has left the fleet, or its version does not support relays");
  }
  const auto parts = split_address(address);
  if (!parts || !parts->port)
    co_return core::unavailable("the owner does not advertise a host and port");
  if (tls && !of_.context.encrypt) {
    co_return core::unavailable("the owner asks for TLS; start this daemon with --tls, too");
  }
  Result<Ticket> ticket = of_.admission.enter_link();
  if (!ticket) co_return ticket.error();
  const auto socket = std::make_shared<tcp::socket>(of_.loop);
  const auto resolver = std::make_shared<tcp::resolver>(of_.loop);
  const auto now_open = std::make_shared<std::weak_ptr<Stream>>();
  asio::steady_timer deadline(of_.loop, of_.patience);
  deadline.async_wait([socket, resolver, now_open](const ErrorCode& cancelled) {
    if (cancelled) return;
    ErrorCode ignored;
    resolver->cancel();
    socket->close(ignored);
    if (const auto open = now_open->lock()) open->cancel();
  });
  ErrorCode failed;
  const std::string host(parts->host);
  const std::string port(*parts->port);
  const auto found = co_await resolver->async_resolve(
      host, port, asio::redirect_error(asio::use_awaitable, failed));
  if (failed) co_return core::unavailable("cannot resolve the address: " + failed.message());
  co_await asio::async_connect(*socket, found, asio::redirect_error(asio::use_awaitable, failed));
  if (failed) co_return core::unavailable("cannot connect: " + failed.message());
  configure(*socket);
  std::shared_ptr<Stream> stream =
      std::make_shared<PlainStream>(std::move(*socket), std::move(*ticket));
  *now_open = stream;
  if (tls) {
    const auto encrypted = co_await of_.context.encrypt(stream, host);
    if (!encrypted) co_return core::unavailable(encrypted.error().detail);
    stream = *encrypted;
    *now_open = stream;
  }
  const Bytes bytes = native::encode_relay(frame);
  co_await stream->write_all(asio::buffer(bytes), failed);
  const Result<void> taken = co_await read_reply(*stream);
  if (!taken) co_return taken.error();
  deadline.cancel();
  co_return stream;
}

// ---- the owner ---------------------------------------------------------------------------------

bool Relay::is_asked_for(std::string_view head) {
  if (!head.starts_with(native::kMagic)) return false;
  const auto frame = frame_of(head);
  return frame && frame->has_value() && (*frame)->header.op == native::kRelayOp;
}

void Relay::take(const std::shared_ptr<Stream>& stream) {
  std::string head = stream->take_head();
  const auto cut = frame_of(head);
  const Result<native::RelayFrame> frame = native::decode_relay((*cut)->body);
  if (!frame) return refuse(stream, frame.error());
  const Result<std::shared_ptr<TcpStoreListener>> listener = admit(*stream, *frame);
  if (!listener) return refuse(stream, listener.error());
  stream->put_head(head.substr(native::kMagic.size() + (*cut)->size));
  (*listener)->runs->locate([this, stream, listener = *listener,
                             job = frame->job](const Result<TcpStoreRuns::Owner>& owner) {
    if (!owner) return refuse(stream, owner.error());
    if (!owner->here()) {
      return refuse(stream, failure(Code::not_owner, "job \"{}\" is served by the daemon at {}",
                                    printable(job, limits::kNameBytes), owner->addresses.front()));
    }
    const Bytes reply = native::encode_relay_reply({});
    const asio::const_buffer bytes = asio::buffer(reply);
    ErrorCode failed;  // then the next read fails, too
    stream->write_now(std::span(&bytes, 1), failed);
    receive_passed_on(stream, listener);
  });
}

/// Checks that a daemon of the fleet has sent the frame, and counts the connection as one of the
/// client.
Result<std::shared_ptr<TcpStoreListener>> Relay::admit(Stream& stream,
                                                       const native::RelayFrame& frame) {
  const native::RelayKey own = of_.directory.fleet()->own_relay_key();
  if (!own.is_set() || !(own == frame.key)) {
    return failure(Code::permission_denied,
                   "the relay frame does not have this daemon's key: only daemons of its fleet may "
                   "relay connections");
  }
  const Result<tcp::endpoint> client = endpoint_of(frame.peer);
  if (!client) return client.error();
  const asio::ip::address address = unmapped(client->address());
  if (const Result<void> admitted = of_.admission.may_enter(address); !admitted) {
    return admitted.error();
  }
  if (const Result<void> admitted = of_.admission.may_enter_tcpstore(); !admitted) {
    return admitted.error();
  }
  stream.serve_for(*client, of_.admission.enter(address));
  return listener_of(frame);
}

/// Returns the listener that all connections with the same settings share.
std::shared_ptr<TcpStoreListener> Relay::listener_of(const native::RelayFrame& frame) {
  std::erase_if(listeners_, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<TcpStoreListener>& known = listeners_[{frame.job, frame.run, frame.legacy}];
  if (auto listener = known.lock()) return listener;
  ListenerSettings settings = main_listener(of_.context.options);
  settings.tcpstore_job = frame.job;
  settings.tcpstore_run = frame.run;
  settings.legacy = frame.legacy;
  auto listener = of_.listener(settings);
  known = listener;
  return listener;
}

void Relay::refuse(const std::shared_ptr<Stream>& stream, const Failure& reason) {
  of_.context.metrics.protocol_error(Protocol::native, reason.code);
  of_.context.metrics.connection_closed(Protocol::unknown, "refused");
  log_refused(name_of(Protocol::native), stream->peer(), reason);
  const auto end = [](std::shared_ptr<Stream> of, Bytes reply) -> asio::awaitable<void> {
    ErrorCode failed;
    co_await of->write_all(asio::buffer(reply), failed);
    co_await of->finish();
  };
  asio::co_spawn(of_.loop, end(stream, native::encode_relay_reply(reason)), asio::detached);
}

}  // namespace c10dd::daemon
