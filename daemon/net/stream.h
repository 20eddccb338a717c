// SPDX-License-Identifier: Apache-2.0
// Defines the interface through which a session reads and writes the bytes of its connection, and
// ends the connection. A subclass carries the bytes: PlainStream uses a TCP socket.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "daemon/net/admission.h"
#include "daemon/net/peer_signs.h"

namespace c10dd::daemon {

namespace asio = boost::asio;
using ErrorCode = boost::system::error_code;

/// Takes the result of Stream::read_into().
class StreamReader {
 public:
  virtual ~StreamReader() = default;
  /// Called on the stream's loop with the result that read_next() would have returned.
  virtual void on_read(std::size_t bytes, const ErrorCode& failed) = 0;
};

/// The byte stream of one connection. Callers provide the buffers of all reads and writes, so an
/// idle stream holds no buffer. All functions must be called on the loop of executor().
class Stream {
 public:
  /// Keeps `ticket`, so that the connection is counted. move_to() gives `ticket` to the new stream.
  explicit Stream(Ticket ticket) : ticket_(std::move(ticket)) {}
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// Waits for bytes, then reads them. At the end of the connection returns 0 and sets `failed`.
  /// Does not return bytes of the head. Waiting and reading in one call saves a system call.
  virtual asio::awaitable<std::size_t> read_next(asio::mutable_buffer into, ErrorCode& failed) = 0;

  /// Reads as read_next() does, then calls reader->on_read(), but never during this call. A call is
  /// cheaper than a coroutine, for connections that read often.
  virtual void read_into(asio::mutable_buffer into, std::shared_ptr<StreamReader> reader);

  /// Reads the bytes that have arrived, without waiting. Returns 0 and sets `failed` to would_block
  /// if no bytes have arrived.
  virtual std::size_t read_now(asio::mutable_buffer into, ErrorCode& failed) = 0;

  /// Waits for room, then writes as much as fits. Returns 0 with an error if the connection is
  /// closed.
  virtual asio::awaitable<std::size_t> write_next(asio::const_buffer from, ErrorCode& failed) = 0;

  /// Writes as much as fits, without waiting. Returns 0 with would_block if there is no room.
  virtual std::size_t write_now(std::span<const asio::const_buffer> from, ErrorCode& failed) = 0;

  /// Calls `on_ready` once: when writing may succeed, after an error, or after cancel() or close().
  virtual void when_writable(std::function<void()> on_ready) = 0;

  /// Ends pending calls with an error. Bytes already written are still sent.
  virtual void cancel() = 0;

  /// Sends the end of the stream to the peer.
  virtual void end_writing() = 0;

  /// Closes both directions. Pending calls end with an error.
  virtual void close() = 0;

  /// Moves the connection to `loop`. Calls `then` on that loop with a new stream, which replaces
  /// this stream. If the connection has failed, drops the connection, does not call `then`, and
  /// returns false.
  virtual bool move_to(asio::io_context& loop,
                       std::function<void(std::shared_ptr<Stream>)> then) = 0;

  /// Returns why the connection has failed, if more is known than the error code says; otherwise
  /// an empty text.
  virtual std::string failure_text() const { return {}; }

  virtual asio::any_io_executor executor() = 0;
  virtual std::string peer() const = 0;
  /// Returns the peer's address, and the unspecified address if the connection has failed. An IPv4
  /// peer has an IPv4 address, also on a listener for IPv6.
  virtual asio::ip::address address() const = 0;
  /// Returns the descriptor of the socket, or -1 if there is none.
  virtual int socket() const = 0;
  /// Returns true if the peer's address is a loopback address.
  bool is_local() const { return address().is_loopback(); }

  /// Lets the connection outlive an outage of the network of ten minutes. A peer that was started
  /// anew meanwhile is still noticed within about five seconds after the outage.
  virtual void outlive_outages() = 0;

  /// Returns what shows whether the peer's host answers, see answers(); by default it does. Call
  /// outlive_outages() first: it lets the kernel ask an idle peer often enough.
  virtual PeerSigns peer_signs() const { return {}; }

  /// Reads bytes of the head. If the head is empty, reads as read_next() does.
  asio::awaitable<std::size_t> read_some(asio::mutable_buffer into, ErrorCode& failed);

  /// Writes all bytes.
  asio::awaitable<void> write_all(asio::const_buffer from, ErrorCode& failed);

  /// Sends the end of the stream, discards for up to a second what the peer still sends, and closes
  /// the connection. An earlier close could cause a reset, and the peer would lose the last reply.
  asio::awaitable<void> finish();

  /// Sends the end of the stream to the peer, waits a second without reading, then closes the
  /// connection. Meant for a peer that sends more than can be read in that time.
  asio::awaitable<void> finish_unread();

  /// Makes the stream one of a client whose connection another daemon passes on: peer() and
  /// address() are those of the client, and `ticket` counts the connection from now on.
  void serve_for(const asio::ip::tcp::endpoint& client, Ticket ticket) {
    client_ = client;
    ticket_ = std::move(ticket);
  }

  /// Returns the bytes that were read to recognise the protocol.
  const std::string& head() const { return head_; }
  void put_head(std::string head) { head_ = std::move(head); }

  /// Keeps `what` until the connection has ended, also after move_to().
  void keep(std::shared_ptr<const void> what) { ticket_.keep(std::move(what)); }
  /// Counts the connection in `count`, too, until it has ended.
  void also_count(std::shared_ptr<Ticket::Count> count) { ticket_.also_count(std::move(count)); }
  /// Counts the connection no more: it is about to be closed.
  void give_place_free() { ticket_ = Ticket(); }
  std::string take_head() { return std::exchange(head_, {}); }
  /// Gives the ticket to a stream that takes the place of this one.
  Ticket release_ticket() { return std::move(ticket_); }
  std::optional<asio::ip::tcp::endpoint> take_client() { return std::exchange(client_, {}); }

 protected:
  /// Returns the client whose connection another daemon passes on, if this is one.
  const std::optional<asio::ip::tcp::endpoint>& client() const { return client_; }

 private:
  std::string head_;
  Ticket ticket_;
  std::optional<asio::ip::tcp::endpoint> client_;
};

}  // namespace c10dd::daemon
