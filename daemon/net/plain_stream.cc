// SPDX-License-Identifier: Apache-2.0
#include "daemon/net/plain_stream.h"

#include <netinet/tcp.h>

#include <boost/asio/post.hpp>
#include <sstream>

#include "daemon/config/address_ranges.h"

namespace c10dd::daemon {

using asio::ip::tcp;

namespace {

constexpr int kBufferBytes = 256 * 1024;  // the kernel's, for sending
constexpr int kUserTimeoutMs = 15'000;

}  // namespace

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

PlainStream::PlainStream(tcp::socket socket, Ticket ticket)
    : Stream(std::move(ticket)), socket_(std::move(socket)) {
  ErrorCode ignored;  // if the call below fails, the next read fails, too
  socket_.non_blocking(true, ignored);
}

void PlainStream::read_into(asio::mutable_buffer into, std::shared_ptr<StreamReader> reader) {
  socket_.async_read_some(into,
                          [reader = std::move(reader)](const ErrorCode& failed, std::size_t n) {
                            reader->on_read(n, failed);
                          });
}

std::size_t PlainStream::read_now(asio::mutable_buffer into, ErrorCode& failed) {
  return socket_.read_some(into, failed);
}

std::size_t PlainStream::write_now(std::span<const asio::const_buffer> from, ErrorCode& failed) {
  return from.size() == 1 ? socket_.write_some(from.front(), failed)
                          : socket_.write_some(from, failed);
}

void PlainStream::when_writable(std::function<void()> on_ready) {
  socket_.async_wait(tcp::socket::wait_write,
                     [on_ready = std::move(on_ready)](const ErrorCode&) { on_ready(); });
}

void PlainStream::cancel() {
  ErrorCode ignored;
  socket_.cancel(ignored);
}

void PlainStream::end_writing() {
  ErrorCode ignored;
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
}

void PlainStream::close() {
  ErrorCode ignored;
  socket_.shutdown(tcp::socket::shutdown_both, ignored);
  socket_.close(ignored);
}

bool PlainStream::move_to(asio::io_context& loop,
                          std::function<void(std::shared_ptr<Stream>)> then) {
  ErrorCode failed;
  const tcp protocol = socket_.local_endpoint(failed).protocol();
  const int descriptor = socket_.release(failed);
  if (failed) return false;
  const auto ticket = std::make_shared<Ticket>(take_ticket());
  asio::post(loop, [&loop, protocol, descriptor, ticket, head = take_head(), client = client(),
                    then = std::move(then)]() mutable {
    auto moved =
        std::make_shared<PlainStream>(tcp::socket(loop, protocol, descriptor), std::move(*ticket));
    if (client) moved->serve_for(*client, moved->take_ticket());
    moved->put_head(std::move(head));
    then(std::move(moved));
  });
  return true;
}

std::string PlainStream::peer() const {
  ErrorCode failed;
  const auto endpoint = client() ? *client() : socket_.remote_endpoint(failed);
  std::ostringstream text;
  text << endpoint;
  return failed ? "unknown" : text.str();
}

int PlainStream::socket() const {
  // Asio's function that returns the descriptor is not const.
  return const_cast<asio::ip::tcp::socket&>(socket_).native_handle();
}

asio::ip::address PlainStream::address() const {
  ErrorCode failed;
  return unmapped((client() ? *client() : socket_.remote_endpoint(failed)).address());
}

/// Each option bounds how long a peer may be unreachable: the number of probes while the connection
/// is idle, TCP_USER_TIMEOUT while sent data is not acknowledged.
void PlainStream::outlive_outages() {
  const int fd = socket_.native_handle();
  const auto set = [fd](int name, int value) {
    ::setsockopt(fd, IPPROTO_TCP, name, &value, sizeof value);
  };
  set(TCP_KEEPIDLE, 10);
  set(TCP_KEEPINTVL, 10);
  set(TCP_KEEPCNT, 60);
  set(TCP_USER_TIMEOUT, 600'000);
}

}  // namespace c10dd::daemon
