// SPDX-License-Identifier: Apache-2.0
// Binding, and the accept loop.
#include "daemon/net/listener.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <sstream>
#include <utility>

#include "daemon/net/plain_stream.h"
#include "daemon/net/port_user.h"
#include "daemon/shard/caused_log.h"
#include "protocol/address.h"
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
    : loop_(loop), settings_(std::move(settings)), admission_(admission) {}

ErrorCode Listener::bind() {
  ErrorCode failed;
  tcp::resolver resolver(loop_);
  const auto found =
      resolver.resolve(settings_.host, std::to_string(settings_.port),
                       tcp::resolver::passive | tcp::resolver::numeric_service, failed);
  if (failed) return failed;
  std::vector<tcp::endpoint> endpoints(found.begin(), found.end());
  std::stable_partition(endpoints.begin(), endpoints.end(),
                        [](const auto& one) { return one.address().is_v4(); });
  for (tcp::endpoint& one : endpoints) {
    if (!acceptors_.empty()) one.port(endpoint().port());
    const ErrorCode refused = bind_to(one, endpoints.size() > 1);
    // A name may have addresses that this machine does not have, or not now, as of IPv6.
    const bool is_absent = refused == asio::error::address_family_not_supported ||
                           refused == boost::system::errc::address_not_available;
    if (refused && !is_absent) {
      acceptors_.clear();
      return refused;
    }
    if (refused && !failed) failed = refused;
  }
  return acceptors_.empty() ? failed : ErrorCode();
}

ErrorCode Listener::bind_to(const tcp::endpoint& endpoint, bool is_one_of_many) {
  ErrorCode failed;
  tcp::acceptor& acceptor = acceptors_.emplace_back(loop_);
  acceptor.open(endpoint.protocol(), failed);
  if (!failed) acceptor.set_option(tcp::acceptor::reuse_address(true), failed);
  if (!failed && is_one_of_many && endpoint.address().is_v6()) {
    acceptor.set_option(asio::ip::v6_only(true), failed);
  }
  if (!failed) acceptor.bind(endpoint, failed);
  if (!failed) acceptor.listen(kBacklog, failed);
  if (failed) acceptors_.pop_back();
  return failed;
}

Result<void> Listener::open() {
  const ErrorCode failed = bind();
  if (!failed) return {};
  if (failed.category() != asio::error::get_system_category()) {
    return failure(Code::invalid_argument, "cannot resolve the host \"{}\" of --listen: {}",
                   settings_.host, failed.message());
  }
  const std::string what =
      format("cannot listen on {}:{}: {}", settings_.host, settings_.port, failed.message());
  if (failed == asio::error::address_in_use) {
    return failure(Code::unavailable, "{}: {}", what, port_trouble(settings_.port));
  }
  if (failed == asio::error::access_denied) {
    return failure(Code::permission_denied, what + "; choose a port of 1024 or more");
  }
  return failure(Code::invalid_argument, what + "; give an address of this machine with --listen");
}

void Listener::serve(const SessionContext& context, Protocols protocols) {
  reception_.emplace(context, std::move(protocols), settings_.protocols);
  for (tcp::acceptor& acceptor : acceptors_) {
    asio::co_spawn(loop_, accept(acceptor, gone_), asio::detached);
  }
}

tcp::endpoint Listener::endpoint() const {
  ErrorCode failed;
  return acceptors_.empty() ? tcp::endpoint() : acceptors_.front().local_endpoint(failed);
}

std::string Listener::name() const {
  ErrorCode not_numeric;
  asio::ip::make_address(settings_.host, not_numeric);
  return not_numeric ? address_text(settings_.host, endpoint().port()) : address();
}

std::vector<std::string> Listener::addresses() const {
  std::vector<std::string> all;
  for (const tcp::acceptor& acceptor : acceptors_) {
    ErrorCode failed;
    std::ostringstream text;
    text << acceptor.local_endpoint(failed);
    all.push_back(text.str());
  }
  return all;
}

bool Listener::is_loopback() const {
  return std::ranges::all_of(acceptors_, [](const tcp::acceptor& acceptor) {
    ErrorCode failed;
    return acceptor.local_endpoint(failed).address().is_loopback();
  });
}

std::string Listener::address() const {
  std::ostringstream text;
  text << endpoint();
  return text.str();
}

void Listener::close() {
  ErrorCode ignored;
  for (tcp::acceptor& acceptor : acceptors_) acceptor.close(ignored);
}

/// Ends when the listener is closed or `gone`; then `this` must not be used.
asio::awaitable<void> Listener::accept(tcp::acceptor& acceptor, std::shared_ptr<const bool> gone) {
  if (*gone) co_return;  // it was closed before the loop has turned
  std::chrono::milliseconds delay = kRetryMin;
  asio::steady_timer timer(loop_);
  while (!*gone && acceptor.is_open()) {
    ErrorCode failed;
    tcp::socket socket =
        co_await acceptor.async_accept(asio::redirect_error(asio::use_awaitable, failed));
    if (*gone || !acceptor.is_open()) break;
    if (!failed) {
      delay = kRetryMin;
      admit(std::move(socket));
    } else if (failed != asio::error::connection_aborted) {
      // The process has no descriptors or memory left. Without a pause the next accept would fail
      // at once.
      log_caused("", LogLevel::warn, "event=accept_failed reason={} retry_ms={}",
                 Sentence{failed.message()}, delay.count());
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
  if (!admitted && reception_->make_room(from)) admitted = admission_.may_enter(from);
  if (!admitted && reception_->make_room()) admitted = admission_.may_enter(from);
  std::optional<Ticket> ticket = admitted ? admission_.enter(from) : admission_.enter_for_probes();
  if (!ticket) return reception_->drop_unheard();
  reception_->receive(std::make_shared<PlainStream>(std::move(socket), std::move(*ticket)),
                      std::move(admitted));
}

}  // namespace c10dd::daemon
