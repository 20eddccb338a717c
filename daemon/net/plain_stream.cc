// SPDX-License-Identifier: Apache-2.0
#include "daemon/net/plain_stream.h"

#include <boost/asio/post.hpp>
#include <sstream>

namespace c10dd::daemon {

using asio::ip::tcp;

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

void PlainStream::move_to(asio::io_context& loop,
                          std::function<void(std::shared_ptr<Stream>)> then) {
  ErrorCode failed;
  const tcp protocol = socket_.local_endpoint(failed).protocol();
  const int descriptor = socket_.release(failed);
  if (failed) return;
  const auto ticket = std::make_shared<Ticket>(take_ticket());
  asio::post(loop, [&loop, protocol, descriptor, ticket, head = take_head(),
                    then = std::move(then)]() mutable {
    auto moved =
        std::make_shared<PlainStream>(tcp::socket(loop, protocol, descriptor), std::move(*ticket));
    moved->put_head(std::move(head));
    then(std::move(moved));
  });
}

std::string PlainStream::peer() const {
  ErrorCode failed;
  const auto endpoint = socket_.remote_endpoint(failed);
  std::ostringstream text;
  text << endpoint;
  return failed ? "unknown" : text.str();
}

bool PlainStream::is_local() const {
  ErrorCode failed;
  const auto address = socket_.remote_endpoint(failed).address();
  if (failed) return false;
  // On a listener for both IPv6 and IPv4, an IPv4 peer appears with an IPv4-mapped IPv6 address.
  const bool mapped = address.is_v6() && address.to_v6().is_v4_mapped();
  return mapped ? asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).is_loopback()
                : address.is_loopback();
}

}  // namespace c10dd::daemon
