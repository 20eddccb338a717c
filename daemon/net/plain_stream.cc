// SPDX-License-Identifier: Apache-2.0
#include "daemon/net/plain_stream.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <sstream>

#include "daemon/config/address_ranges.h"

namespace c10dd::daemon {

using asio::ip::tcp;

namespace {

constexpr int kBufferBytes = 256 * 1024;  // the kernel's, for sending
constexpr int kUserTimeoutMs = 15'000;
constexpr std::size_t kMostBuffers = 64;  // in one write

ErrorCode last_error() {
  if (errno == EAGAIN || errno == EWOULDBLOCK) return asio::error::would_block;
  return {errno, boost::system::system_category()};
}

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
    : PlainStream(static_cast<asio::io_context&>(socket.get_executor().context()), socket.release(),
                  std::move(ticket)) {}

PlainStream::PlainStream(asio::io_context& loop, int socket, Ticket ticket)
    : CallbackStream(std::move(ticket)), loop_(loop), poll_(SocketPoll::of(loop)), socket_(socket) {
  ::fcntl(socket_, F_SETFL, ::fcntl(socket_, F_GETFL) | O_NONBLOCK);
  entry_ = poll_.add(socket_, *this);
}

PlainStream::~PlainStream() {
  if (socket_ < 0) return;
  poll_.remove(entry_);
  ::close(socket_);
}

// ---- reading -----------------------------------------------------------------------------------

void PlainStream::read_into(asio::mutable_buffer into, std::shared_ptr<StreamReader> reader) {
  C10DD_ASSERT(!reader_);
  if (socket_ < 0) return end_read(std::move(reader), asio::error::bad_descriptor);
  into_ = into;
  reader_ = std::move(reader);
  want();
}

std::size_t PlainStream::read_now(asio::mutable_buffer into, ErrorCode& failed) {
  while (true) {
    const ssize_t n = ::recv(socket_, into.data(), into.size(), 0);
    failed = n > 0 ? ErrorCode() : n == 0 ? ErrorCode(asio::error::eof) : last_error();
    if (n < 0 && failed == asio::error::interrupted) continue;
    const std::size_t bytes = n > 0 ? static_cast<std::size_t>(n) : 0;
    if (failed == asio::error::would_block) {
      poll_.exhausted(entry_, SocketPoll::reading | SocketPoll::more);
    } else if (!failed && bytes < into.size()) {
      poll_.exhausted(entry_, SocketPoll::reading);
    }
    return bytes;
  }
}

void PlainStream::on_readable() {
  ErrorCode failed;
  const std::size_t n = read_now(into_, failed);
  if (failed == asio::error::would_block) return want();
  const std::shared_ptr<StreamReader> reader = std::exchange(reader_, nullptr);
  reader->on_read(n, failed);
}

/// Ends a read later with this error.
void PlainStream::end_read(std::shared_ptr<StreamReader> reader, ErrorCode failed) {
  asio::post(loop_, [reader = std::move(reader), failed] { reader->on_read(0, failed); });
}

// ---- writing -----------------------------------------------------------------------------------

std::size_t PlainStream::write_now(std::span<const asio::const_buffer> from, ErrorCode& failed) {
  std::array<iovec, kMostBuffers> parts;
  C10DD_ASSERT(from.size() <= parts.size());
  for (std::size_t n = 0; n < from.size(); ++n) {
    parts[n] = {const_cast<void*>(from[n].data()), from[n].size()};
  }
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = from.size();
  while (true) {
    const ssize_t n = from.size() == 1
                          ? ::send(socket_, from[0].data(), from[0].size(), MSG_NOSIGNAL)
                          : ::sendmsg(socket_, &message, MSG_NOSIGNAL);
    failed = n < 0 ? last_error() : ErrorCode();
    if (n < 0 && failed == asio::error::interrupted) continue;
    if (failed == asio::error::would_block) poll_.exhausted(entry_, SocketPoll::writing);
    return n < 0 ? 0 : static_cast<std::size_t>(n);
  }
}

void PlainStream::when_writable(std::function<void()> on_ready) {
  if (socket_ < 0) return asio::post(loop_, std::move(on_ready));
  writer_ = std::move(on_ready);
  want();
}

void PlainStream::on_writable() {
  const std::function<void()> writer = std::exchange(writer_, nullptr);
  writer();
}

/// Ends the read that waits, and lets the writer find out that the connection is closed.
void PlainStream::on_refused(const ErrorCode& why) {
  const std::shared_ptr<StreamReader> reader = std::exchange(reader_, nullptr);
  const std::function<void()> writer = std::exchange(writer_, nullptr);
  close();
  if (reader) end_read(reader, why);
  if (writer) asio::post(loop_, writer);
}

void PlainStream::want() {
  poll_.want(entry_, (reader_ ? SocketPoll::reading : SocketPoll::nothing) |
                         (writer_ ? SocketPoll::writing : SocketPoll::nothing));
}

// ---- the end -----------------------------------------------------------------------------------

void PlainStream::cancel() {
  cancel_writes();
  if (reader_) end_read(std::exchange(reader_, nullptr), asio::error::operation_aborted);
  if (writer_) asio::post(loop_, std::exchange(writer_, nullptr));
  if (socket_ >= 0) want();
}

void PlainStream::end_writing() { ::shutdown(socket_, SHUT_WR); }

void PlainStream::close() {
  if (socket_ < 0) return;
  poll_.remove(entry_);
  ::shutdown(socket_, SHUT_RDWR);
  ::close(std::exchange(socket_, -1));
  cancel();
}

bool PlainStream::move_to(asio::io_context& loop,
                          std::function<void(std::shared_ptr<Stream>)> then) {
  if (socket_ < 0) return false;
  poll_.remove(entry_);
  const int descriptor = std::exchange(socket_, -1);
  cancel();
  const auto ticket = std::make_shared<Ticket>(release_ticket());
  asio::post(loop, [&loop, descriptor, ticket, head = take_head(), client = client(),
                    then = std::move(then)]() mutable {
    std::shared_ptr<PlainStream> moved(new PlainStream(loop, descriptor, std::move(*ticket)));
    if (client) moved->serve_for(*client, moved->release_ticket());
    moved->put_head(std::move(head));
    then(std::move(moved));
  });
  return true;
}

tcp::endpoint PlainStream::remote(ErrorCode& failed) const {
  tcp::endpoint endpoint;
  auto size = static_cast<socklen_t>(endpoint.capacity());
  failed = ::getpeername(socket_, endpoint.data(), &size) == 0 ? ErrorCode() : last_error();
  if (!failed) endpoint.resize(size);
  return endpoint;
}

std::string PlainStream::peer() const {
  ErrorCode failed;
  const auto endpoint = client() ? *client() : remote(failed);
  std::ostringstream text;
  text << endpoint;
  return failed ? "unknown" : text.str();
}

asio::ip::address PlainStream::address() const {
  ErrorCode failed;
  return unmapped((client() ? *client() : remote(failed)).address());
}

/// TCP_USER_TIMEOUT bounds how long a peer may be unreachable, whether the connection is idle or
/// not. The number of probes bounds it in the same way where TCP_USER_TIMEOUT cannot be set. The
/// probes are as frequent as answers() needs.
void PlainStream::outlive_outages() {
  const int fd = socket_;
  const auto set = [fd](int name, int value) {
    ::setsockopt(fd, IPPROTO_TCP, name, &value, sizeof value);
  };
  set(TCP_KEEPIDLE, 5);
  set(TCP_KEEPINTVL, 5);
  set(TCP_KEEPCNT, 121);
  set(TCP_USER_TIMEOUT, 600'000);
}

/// The peer of a connection that another daemon passes on is that daemon, not the client.
PeerSigns PlainStream::peer_signs() const { return client() ? PeerSigns() : signs_of(socket_); }

}  // namespace c10dd::daemon
