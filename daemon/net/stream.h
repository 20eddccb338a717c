// SPDX-License-Identifier: Apache-2.0
// What a protocol session sees of its connection: bytes in and out, and its end. TLS will
// be another implementation behind the same calls.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <span>
#include <string>

#include "daemon/net/admission.h"

namespace c10dd::daemon {

namespace asio = boost::asio;
using ErrorCode = boost::system::error_code;

class Stream {
 public:
  /// head: bytes that were read to recognise the protocol.
  Stream(asio::ip::tcp::socket socket, std::string head, Ticket ticket)
      : socket_(std::move(socket)), head_(std::move(head)), ticket_(std::move(ticket)) {
    socket_.non_blocking(true);
  }

  /// Waits for bytes, then reads them, past a head that was not taken; 0 with an error at the end.
  /// Unlike waiting alone it costs no system call of its own.
  asio::awaitable<std::size_t> read_next(asio::mutable_buffer into, ErrorCode& failed) {
    return socket_.async_read_some(into, asio::redirect_error(asio::use_awaitable, failed));
  }

  /// What there is without waiting; 0 with would_block when there is nothing.
  std::size_t read_now(asio::mutable_buffer into, ErrorCode& failed) {
    return socket_.read_some(into, failed);
  }

  /// Calls on_ready once when there may be room to write, or when the connection is over.
  template <class F>
  void when_writable(F&& on_ready) {
    socket_.async_wait(asio::ip::tcp::socket::wait_write, std::forward<F>(on_ready));
  }

  /// Writes what goes without waiting; 0 with would_block when nothing does.
  std::size_t write_now(std::span<const asio::const_buffer> from, ErrorCode& failed) {
    return from.size() == 1 ? socket_.write_some(from.front(), failed)
                            : socket_.write_some(from, failed);
  }

  /// Waits for bytes, then reads them; 0 with an error at the end.
  asio::awaitable<std::size_t> read_some(asio::mutable_buffer into, ErrorCode& failed);

  /// Writes all bytes.
  asio::awaitable<void> write_all(asio::const_buffer from, ErrorCode& failed);

  /// Pending calls end with an error; what was written still goes.
  void cancel();

  /// Says the end to the peer, then reads what it still sends for a short time, so that a last
  /// answer is not lost to a reset. Closes.
  asio::awaitable<void> finish();

  /// Likewise, for a peer that sends more than there is time to read: gives it the same short time
  /// to see the end. Closes.
  asio::awaitable<void> finish_unread();

  /// Ends both directions; pending calls end with an error.
  void close();

  /// Takes the connection off its loop, for another loop to go on with.
  int release(ErrorCode& failed) { return socket_.release(failed); }
  asio::ip::tcp protocol() const;
  Ticket take_ticket() { return std::move(ticket_); }

  asio::any_io_executor executor() { return socket_.get_executor(); }
  const std::string& head() const { return head_; }
  std::string take_head() { return std::exchange(head_, {}); }
  std::string peer() const;
  /// Whether the peer is on this machine, by a loopback address.
  bool is_local() const;

 private:
  asio::ip::tcp::socket socket_;
  std::string head_;
  Ticket ticket_;
};

}  // namespace c10dd::daemon
