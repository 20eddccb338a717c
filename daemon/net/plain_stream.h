// SPDX-License-Identifier: Apache-2.0
// A stream over a TCP socket, without encryption.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "daemon/net/stream.h"

namespace c10dd::daemon {

/// Sets the options of a new connection. A dead peer is detected by TCP_USER_TIMEOUT while sent
/// data is not acknowledged, and by keepalive while the connection is idle.
void configure(asio::ip::tcp::socket& socket);

class PlainStream final : public Stream {
 public:
  PlainStream(asio::ip::tcp::socket socket, Ticket ticket);

  asio::awaitable<std::size_t> read_next(asio::mutable_buffer into, ErrorCode& failed) override {
    return socket_.async_read_some(into, asio::redirect_error(asio::use_awaitable, failed));
  }
  void read_into(asio::mutable_buffer into, std::shared_ptr<StreamReader> reader) override;
  std::size_t read_now(asio::mutable_buffer into, ErrorCode& failed) override;
  asio::awaitable<std::size_t> write_next(asio::const_buffer from, ErrorCode& failed) override {
    return socket_.async_write_some(from, asio::redirect_error(asio::use_awaitable, failed));
  }
  std::size_t write_now(std::span<const asio::const_buffer> from, ErrorCode& failed) override;
  void when_writable(std::function<void()> on_ready) override;
  void cancel() override;
  void end_writing() override;
  void close() override;
  bool move_to(asio::io_context& loop, std::function<void(std::shared_ptr<Stream>)> then) override;
  asio::any_io_executor executor() override { return socket_.get_executor(); }
  std::string peer() const override;
  asio::ip::address address() const override;
  int socket() const override;
  void outlive_outages() override;

 private:
  asio::ip::tcp::socket socket_;
};

}  // namespace c10dd::daemon
