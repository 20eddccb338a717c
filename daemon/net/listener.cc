// SPDX-License-Identifier: Apache-2.0
// Binding, and the accept loop.
#include "daemon/net/listener.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <sstream>
#include <utility>

#include "daemon/net/plain_stream.h"
#include "daemon/shard/log_line.h"
#include "protocol/format.h"
#include "protocol/wording.h"

namespace c10dd::daemon {
namespace {

using asio::ip::tcp;

constexpr int kBacklog = 4096;
constexpr std::chrono::milliseconds kRetryMin{10};
constexpr std::chrono::milliseconds kRetryMax{200};

}  // namespace

Listener::Listener(asio::io_context& loop, ListenerSettings settings, Admission& admission)
    : loop_(loop), acceptor_(loop), settings_(std::move(settings)), admission_(admission) {}

ErrorCode Listener::bind() {
  ErrorCode failed;
  tcp::resolver resolver(loop_);
  const auto found =
      resolver.resolve(settings_.host, std::to_string(settings_.port),
                       tcp::resolver::passive | tcp::resolver::numeric_service, failed);
  if (failed) return failed;
  const tcp::endpoint endpoint = found.begin()->endpoint();
  acceptor_.open(endpoint.protocol(), failed);
  if (!failed) acceptor_.set_option(tcp::acceptor::reuse_address(true), failed);
  if (!failed) acceptor_.bind(endpoint, failed);
  if (!failed) acceptor_.listen(kBacklog, failed);
  return failed;
}

Result<void> Listener::open() {
  const ErrorCode failed = bind();
  if (!failed) return {};
  if (!acceptor_.is_open() && failed.category() != asio::error::get_system_category()) {
    return failure(Code::invalid_argument, "listen: host \"{}\" cannot be resolved: {}",
                   settings_.host, failed.message());
  }
  const std::string what =
      format("listen: {}:{}: {}", settings_.host, settings_.port, failed.message());
  if (failed == asio::error::address_in_use) {
    return failure(Code::unavailable,
                   what + "; stop the other server or choose another port with --listen");
  }
  if (failed == asio::error::access_denied) {
    return failure(Code::permission_denied, what + "; choose a port of 1024 or more");
  }
  return failure(Code::invalid_argument, what + "; give an address of this machine with --listen");
}

void Listener::serve(const SessionContext& context, Protocols protocols) {
  reception_.emplace(context, std::move(protocols), settings_.protocols);
  asio::co_spawn(loop_, accept(gone_), asio::detached);
}

tcp::endpoint Listener::endpoint() const {
  ErrorCode failed;
  return acceptor_.local_endpoint(failed);
}

std::string Listener::address() const {
  std::ostringstream text;
  text << endpoint();
  return text.str();
}

void Listener::close() {
  ErrorCode ignored;
  acceptor_.close(ignored);
}

/// Ends when the listener is closed or `gone`; then `this` must not be used.
asio::awaitable<void> Listener::accept(std::shared_ptr<const bool> gone) {
  std::chrono::milliseconds delay = kRetryMin;
  asio::steady_timer timer(loop_);
  while (!*gone && acceptor_.is_open()) {
    ErrorCode failed;
    tcp::socket socket =
        co_await acceptor_.async_accept(asio::redirect_error(asio::use_awaitable, failed));
    if (*gone || !acceptor_.is_open()) break;
    if (!failed) {
      delay = kRetryMin;
      admit(std::move(socket));
    } else if (failed != asio::error::connection_aborted) {
      // The process has no descriptors or memory left. Without a pause the next accept would fail
      // at once.
      log_warn("event=accept_failed reason={} retry_ms={}", Sentence{failed.message()},
               delay.count());
      timer.expires_after(delay);
      co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, failed));
      delay = std::min(delay * 2, kRetryMax);
    }
  }
}

void Listener::admit(tcp::socket socket) {
  configure(socket);
  ErrorCode failed;
  const auto from = unmapped(socket.remote_endpoint(failed).address());
  if (failed) return;  // the client has already closed the connection
  Result<void> admitted = admission_.may_enter(from);
  std::optional<Ticket> ticket = admitted ? admission_.enter(from) : admission_.enter_for_probes();
  if (!ticket) return reception_->drop_unheard();
  reception_->receive(std::make_shared<PlainStream>(std::move(socket), std::move(*ticket)),
                      std::move(admitted));
}

}  // namespace c10dd::daemon
