// SPDX-License-Identifier: Apache-2.0
// One accept loop; each connection says its protocol with its first byte.
// To add a protocol: its first byte here, its coroutine in sessions.h.
#include "daemon/net/listener.h"

#include <netinet/tcp.h>
#include <spdlog/spdlog.h>

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <sstream>

#include "daemon/config/option_values.h"
#include "daemon/http/http_wire.h"
#include "daemon/net/sessions.h"
#include "daemon/server.h"
#include "protocol/limits.h"
#include "protocol/native_wire.h"
#include "protocol/wording.h"

namespace c10dd::daemon {
namespace {

using asio::ip::tcp;

constexpr int kBacklog = 4096;
constexpr unsigned char kLastOfTcpStore = 0x0B;  // its operations are its first bytes, from 0
constexpr std::chrono::milliseconds kRetryMin{10};
constexpr std::chrono::milliseconds kRetryMax{200};
constexpr int kBufferBytes = 256 * 1024;  // of the kernel, per direction
constexpr int kUserTimeoutMs = 15'000;

/// A dead peer is found whether data is in flight (user time-out) or not (keepalive).
void configure(tcp::socket& socket) {
  ErrorCode ignored;
  const int fd = socket.native_handle();
  const auto set = [fd](int level, int name, int value) {
    ::setsockopt(fd, level, name, &value, sizeof value);
  };
  socket.set_option(tcp::no_delay(true), ignored);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeoutMs);
  set(SOL_SOCKET, SO_SNDBUF, kBufferBytes);
}

Failure unknown_protocol(unsigned char first, const Options& options) {
  const bool torch = first <= kLastOfTcpStore;
  return failure(Code::malformed, "no protocol that is spoken here begins with byte " +
                                      std::to_string(first) +
                                      "; spoken are: " + protocols_text(options) +
                                      (torch ? "; it looks like PyTorch's TCPStore, which is not "
                                               "spoken here yet: give the trainer another "
                                               "MASTER_PORT"
                                             : ""));
}

bool may_be_native(std::string_view head) {
  return native::kMagic.starts_with(head.substr(0, native::kMagic.size()));
}

}  // namespace

Listener::Listener(asio::io_context& loop, Server& server)
    : loop_(loop), server_(server), acceptor_(loop), admission_(server.options()) {}

Result<void> Listener::open(const std::string& host, std::uint16_t port) {
  ErrorCode failed;
  tcp::resolver resolver(loop_);
  const auto found = resolver.resolve(
      host, std::to_string(port), tcp::resolver::passive | tcp::resolver::numeric_service, failed);
  if (failed || found.empty()) {
    return failure(Code::invalid_argument,
                   "listen: host \"" + host + "\" cannot be resolved: " + failed.message());
  }
  const tcp::endpoint endpoint = found.begin()->endpoint();
  acceptor_.open(endpoint.protocol(), failed);
  if (!failed) acceptor_.set_option(tcp::acceptor::reuse_address(true), failed);
  if (!failed) acceptor_.bind(endpoint, failed);
  if (!failed) acceptor_.listen(kBacklog, failed);
  if (failed) {
    const std::string what =
        "listen: " + host + ":" + std::to_string(port) + ": " + failed.message();
    if (failed == asio::error::address_in_use) {
      return failure(Code::unavailable,
                     what + "; stop the other server or choose another port with --listen");
    }
    if (failed == asio::error::access_denied) {
      return failure(Code::permission_denied, what + "; choose a port of 1024 or more");
    }
    return failure(Code::invalid_argument,
                   what + "; give an address of this machine with --listen");
  }
  asio::co_spawn(loop_, accept(), asio::detached);
  return {};
}

std::string Listener::address() const {
  ErrorCode failed;
  std::ostringstream text;
  text << acceptor_.local_endpoint(failed);
  return text.str();
}

void Listener::close() {
  ErrorCode ignored;
  acceptor_.close(ignored);
}

asio::awaitable<void> Listener::accept() {
  std::chrono::milliseconds delay = kRetryMin;
  asio::steady_timer timer(loop_);
  while (acceptor_.is_open()) {
    ErrorCode failed;
    tcp::socket socket =
        co_await acceptor_.async_accept(asio::redirect_error(asio::use_awaitable, failed));
    if (!acceptor_.is_open()) break;
    if (!failed) {
      delay = kRetryMin;
      welcome(std::move(socket));
    } else if (failed != asio::error::connection_aborted) {
      // Out of descriptors or memory: a level-triggered accept would spin.
      spdlog::warn("event=accept_failed reason={} retry_ms={}", quoted(failed.message()),
                   delay.count());
      timer.expires_after(delay);
      co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, failed));
      delay = std::min(delay * 2, kRetryMax);
    }
  }
}

bool Listener::wants_more(std::string_view head, bool admitted) const {
  if (head.size() < native::kMagic.size()) return may_be_native(head);
  return admitted && head.starts_with(native::kMagic) && server_.shards().size() > 1 &&
         first_frame_is_missing(head);
}

void Listener::welcome(tcp::socket socket) {
  configure(socket);
  ErrorCode failed;
  const auto from = socket.remote_endpoint(failed).address();
  if (failed) return;  // gone again
  Result<void> admitted = admission_.may_enter(from);
  std::optional<Ticket> ticket = admitted ? admission_.enter(from) : admission_.stand_aside();
  if (!ticket) {
    server_.metrics().connection_closed(Protocol::unknown, "quota_exceeded");
    return;
  }
  asio::co_spawn(loop_, recognise(std::move(socket), std::move(*ticket), admitted), asio::detached);
}

asio::awaitable<void> Listener::recognise(tcp::socket accepted, Ticket ticket,
                                          Result<void> admitted) {
  const auto socket = std::make_shared<tcp::socket>(std::move(accepted));
  std::array<char, 512> buffer;
  std::string head;
  asio::steady_timer deadline(loop_, limits::kHelloDeadline);
  ErrorCode failed;
  deadline.async_wait([socket](const ErrorCode& cancelled) {
    ErrorCode ignored;
    if (!cancelled) socket->close(ignored);
  });
  do {
    const std::size_t n = co_await socket->async_read_some(
        asio::buffer(buffer), asio::redirect_error(asio::use_awaitable, failed));
    head.append(buffer.data(), n);
  } while (!failed && wants_more(head, admitted.has_value()));
  deadline.cancel();
  const Options& options = server_.options();
  const bool native = head.starts_with(native::kMagic);
  const bool http = !head.empty() && head.front() >= 'A' && head.front() <= 'Z';
  if (failed && native) {
    server_.metrics().connection_opened(Protocol::native);
    server_.metrics().connection_closed(Protocol::native,
                                        socket->is_open() ? "peer" : "hello_deadline");
    co_return;
  }
  if (failed) {
    server_.metrics().connection_closed(Protocol::unknown, "nothing_said");
    co_return;
  }
  Stream stream(std::move(*socket), std::move(head), std::move(ticket));
  if ((native || http) && !admitted) {
    Failure reason = admitted.error();
    co_await refuse(std::move(stream), native ? Protocol::native : Protocol::http,
                    std::move(reason));
  } else if (native && options.protocols.has(Protocol::native)) {
    receive_native(std::move(stream), server_);
  } else if (http && options.protocols.has(Protocol::http)) {
    asio::co_spawn(loop_, serve_http(std::move(stream), server_), asio::detached);
  } else {
    Failure reason = unknown_protocol(static_cast<unsigned char>(stream.head().front()), options);
    co_await refuse(std::move(stream),
                    options.protocols.has(Protocol::http) ? Protocol::unknown : Protocol::native,
                    std::move(reason));
  }
}

/// Says why in the words of the protocol, if there are any, and closes.
asio::awaitable<void> Listener::refuse(Stream stream, Protocol protocol, Failure reason) {
  server_.metrics().protocol_error(protocol, reason.code);
  server_.metrics().connection_closed(Protocol::unknown, "refused");
  spdlog::warn("event=refused peer={} code={} detail={}", stream.peer(), name_of(reason.code),
               quoted(reason.detail));
  std::string answer;
  if (protocol == Protocol::native) {
    native::ReplyHeader header;
    header.op = Hello::op.code;
    answer = native::encode_reply(header, reason).head;
  } else if (protocol == Protocol::http) {
    const int status = reason.code == Code::quota_exceeded ? 503 : 400;
    answer = encode(http_error(status, reason.code, reason.detail), false, false);
  }
  ErrorCode failed;
  stream.take_head();
  co_await stream.write_all(asio::buffer(answer), failed);
  co_await stream.finish();
}

}  // namespace c10dd::daemon
