// SPDX-License-Identifier: Apache-2.0
// What a session sees of its connection: bytes in and out, and its end. What carries them, a TCP
// socket (plain_stream.h) or something else, is for the forms of it to say.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "daemon/net/admission.h"

namespace c10dd::daemon {

namespace asio = boost::asio;
using ErrorCode = boost::system::error_code;

/// Used on one loop, that of executor(). Bytes are read into the caller's buffer and written from
/// where they are: while it waits, a stream holds none.
class Stream {
 public:
  /// The ticket is given back with the connection.
  explicit Stream(Ticket ticket) : ticket_(std::move(ticket)) {}
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// Waits for bytes, then reads them, past a head that was not taken; 0 with an error at the end.
  /// Unlike waiting alone it costs no system call of its own.
  virtual asio::awaitable<std::size_t> read_next(asio::mutable_buffer into, ErrorCode& failed) = 0;

  /// Reads what there is without waiting; 0 with would_block when there is nothing.
  virtual std::size_t read_now(asio::mutable_buffer into, ErrorCode& failed) = 0;

  /// Waits for room, then writes what goes; 0 with an error when the connection is over.
  virtual asio::awaitable<std::size_t> write_next(asio::const_buffer from, ErrorCode& failed) = 0;

  /// Writes what goes without waiting; 0 with would_block when nothing does.
  virtual std::size_t write_now(std::span<const asio::const_buffer> from, ErrorCode& failed) = 0;

  /// Calls on_ready once when there may be room to write, or when the connection is over.
  virtual void when_writable(std::function<void()> on_ready) = 0;

  /// Ends pending calls with an error; what was written still goes.
  virtual void cancel() = 0;

  /// Says the end to the peer.
  virtual void end_writing() = 0;

  /// Ends both directions; pending calls end with an error.
  virtual void close() = 0;

  /// Takes the connection off its loop, to go on with on another: calls `then` there with what
  /// stands for it from now on. A connection that is over is dropped.
  virtual void move_to(asio::io_context& loop,
                       std::function<void(std::shared_ptr<Stream>)> then) = 0;

  virtual asio::any_io_executor executor() = 0;
  virtual std::string peer() const = 0;
  /// Whether the peer is on this machine, by a loopback address.
  virtual bool is_local() const = 0;

  /// Takes bytes of the head, or waits for more, then reads them; 0 with an error at the end.
  asio::awaitable<std::size_t> read_some(asio::mutable_buffer into, ErrorCode& failed);

  /// Writes all bytes.
  asio::awaitable<void> write_all(asio::const_buffer from, ErrorCode& failed);

  /// Says the end to the peer, then reads what it still sends for a short time, so that a last
  /// answer is not lost to a reset. Closes.
  asio::awaitable<void> finish();

  /// Likewise, for a peer that sends more than there is time to read: gives it the same short time
  /// to see the end. Closes.
  asio::awaitable<void> finish_unread();

  /// The bytes that were read to recognise the protocol.
  const std::string& head() const { return head_; }
  void put_head(std::string head) { head_ = std::move(head); }
  std::string take_head() { return std::exchange(head_, {}); }

 protected:
  Ticket take_ticket() { return std::move(ticket_); }

 private:
  std::string head_;
  Ticket ticket_;
};

}  // namespace c10dd::daemon
