// SPDX-License-Identifier: Apache-2.0
// The plain TCP stream.
#include "daemon/net/stream.h"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <sstream>

namespace c10dd::daemon {
namespace {
constexpr auto kLinger = std::chrono::seconds(1);
}

asio::awaitable<std::size_t> Stream::read_some(asio::mutable_buffer into, ErrorCode& failed) {
  if (!head_.empty()) {
    const std::size_t n = asio::buffer_copy(into, asio::buffer(head_));
    head_.erase(0, n);
    failed = {};
    co_return n;
  }
  const std::size_t n =
      co_await socket_.async_read_some(into, asio::redirect_error(asio::use_awaitable, failed));
  co_return n;
}

asio::awaitable<void> Stream::write_all(asio::const_buffer from, ErrorCode& failed) {
  failed = {};
  while (from.size() > 0 && !failed) {
    const std::size_t n =
        co_await socket_.async_write_some(from, asio::redirect_error(asio::use_awaitable, failed));
    from += n;
  }
}

void Stream::cancel() {
  ErrorCode ignored;
  socket_.cancel(ignored);
}

asio::awaitable<void> Stream::finish_unread() {
  ErrorCode failed;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, failed);
  asio::steady_timer deadline(socket_.get_executor(), kLinger);
  co_await deadline.async_wait(asio::redirect_error(asio::use_awaitable, failed));
  close();
}

asio::awaitable<void> Stream::finish() {
  constexpr std::size_t kDiscardMax = 64 * 1024 * 1024;
  ErrorCode failed;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, failed);
  asio::steady_timer deadline(socket_.get_executor(), kLinger);
  struct End {
    bool over = false;
    bool late = false;
  };
  const auto end = std::make_shared<End>();
  deadline.async_wait([this, end](const ErrorCode& cancelled) {
    if (cancelled || end->over) return;
    end->late = true;  // bytes may have come already: then there is nothing to cancel
    cancel();
  });
  std::string discard(64 * 1024, '\0');
  std::size_t total = 0;
  while (!failed && !end->late && total < kDiscardMax) {
    total += co_await socket_.async_read_some(asio::buffer(discard),
                                              asio::redirect_error(asio::use_awaitable, failed));
  }
  end->over = true;
  deadline.cancel();
  close();
}

void Stream::close() {
  ErrorCode ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  socket_.close(ignored);
}

asio::ip::tcp Stream::protocol() const {
  ErrorCode failed;
  return socket_.local_endpoint(failed).protocol();
}

std::string Stream::peer() const {
  ErrorCode failed;
  const auto endpoint = socket_.remote_endpoint(failed);
  std::ostringstream text;
  text << endpoint;
  return failed ? "unknown" : text.str();
}

bool Stream::is_local() const {
  ErrorCode failed;
  const auto address = socket_.remote_endpoint(failed).address();
  if (failed) return false;
  const bool mapped = address.is_v6() && address.to_v6().is_v4_mapped();
  return mapped ? asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).is_loopback()
                : address.is_loopback();
}

}  // namespace c10dd::daemon
