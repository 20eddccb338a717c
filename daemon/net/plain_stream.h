// SPDX-License-Identifier: Apache-2.0
// A stream over a TCP socket, without encryption.
#pragma once

#include <boost/asio/ip/tcp.hpp>

#include "daemon/net/callback_stream.h"
#include "daemon/shard/socket_poll.h"

namespace c10dd::daemon {

/// Sets the options of a new connection. A dead peer is detected by TCP_USER_TIMEOUT while sent
/// data is not acknowledged, and by keepalive while the connection is idle.
void configure(asio::ip::tcp::socket& socket);

class PlainStream final : public CallbackStream, private SocketPoll::Watcher {
 public:
  PlainStream(asio::ip::tcp::socket socket, Ticket ticket);
  ~PlainStream() override;

  void read_into(asio::mutable_buffer into, std::shared_ptr<StreamReader> reader) override;
  std::size_t read_now(asio::mutable_buffer into, ErrorCode& failed) override;
  std::size_t write_now(std::span<const asio::const_buffer> from, ErrorCode& failed) override;
  void when_writable(std::function<void()> on_ready) override;
  void cancel() override;
  void end_writing() override;
  void close() override;
  bool move_to(asio::io_context& loop, std::function<void(std::shared_ptr<Stream>)> then) override;
  asio::any_io_executor executor() override { return loop_.get_executor(); }
  std::string peer() const override;
  asio::ip::address address() const override;
  int socket() const override { return socket_; }
  void outlive_outages() override;
  PeerSigns peer_signs() const override;

 private:
  PlainStream(asio::io_context& loop, int socket, Ticket ticket);

  void on_readable() override;
  void on_writable() override;
  void on_refused(const ErrorCode& why) override;
  void want();
  void end_read(std::shared_ptr<StreamReader> reader, ErrorCode failed);
  asio::ip::tcp::endpoint remote(ErrorCode& failed) const;

  asio::io_context& loop_;
  SocketPoll& poll_;
  int socket_;  ///< -1: closed
  SocketPoll::Entry entry_;
  asio::mutable_buffer into_;
  std::shared_ptr<StreamReader> reader_;  ///< null: no read waits
  std::function<void()> writer_;          ///< null: nobody waits for room
};

}  // namespace c10dd::daemon
