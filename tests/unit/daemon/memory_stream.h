// SPDX-License-Identifier: Apache-2.0
// A connection without a socket: the session holds a MemoryStream, the test holds the other end, a
// MemoryWire. What the test does takes effect when the session's loop turns; nothing waits for
// time.
#pragma once

#include <algorithm>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/net/stream.h"

namespace c10dd::daemon {

/// The peer's end.
class MemoryWire {
 public:
  void say(std::string_view bytes) {
    to_session_ += bytes;
    wake_session();
  }
  /// Ends the peer's stream: it sends no more bytes.
  void hang_up() {
    ended_ = true;
    wake_session();
  }
  /// Closes the connection: reading and writing fail.
  void break_off() {
    broken_ = true;
    wake_session();
  }
  /// Lets the session write this many more bytes. Without any call it may write without a limit.
  void give_room(std::size_t bytes) {
    room_ = std::exchange(limited_, true) ? room_ + bytes : bytes;
    wake_session();
  }
  /// Returns what the session has written since the last call.
  std::string take() { return std::exchange(to_peer_, {}); }
  const std::string& written() const { return to_peer_; }
  bool unread() const { return !to_session_.empty(); }

  bool session_ended() const { return session_ended_; }  ///< it writes no more
  bool closed() const { return closed_; }
  /// Sets whether the peer's host answers.
  void answer(bool answers) { answers_ = answers; }
  unsigned moves() const { return moves_; }  ///< how often it moved to another loop
  std::size_t most_buffers() const { return most_buffers_; }
  bool patient() const { return patient_; }  ///< it outlives outages
  unsigned looks() const { return looks_; }  ///< how often somebody looked whether it answers

 private:
  friend class MemoryStream;

  void wake_session() {
    if (wake_) wake_();
  }
  std::size_t give_session(asio::mutable_buffer into) {
    const std::size_t n = asio::buffer_copy(into, asio::buffer(to_session_) + given_);
    given_ += n;
    if (given_ == to_session_.size()) {
      to_session_.clear();
      given_ = 0;
    }
    return n;
  }
  bool stuck() const { return limited_ && room_ == 0 && !broken_ && !closed_; }

  std::string to_session_;
  std::size_t given_ = 0;  ///< bytes of to_session_ that the session has read
  std::string to_peer_;
  std::size_t room_ = 0;
  bool limited_ = false;
  bool ended_ = false;
  bool broken_ = false;
  bool session_ended_ = false;
  bool closed_ = false;
  bool write_cancelled_ = false;
  bool patient_ = false;
  bool answers_ = true;
  unsigned looks_ = 0;
  unsigned moves_ = 0;
  std::size_t most_buffers_ = 0;  ///< in one write
  std::function<void()> wake_;
};

class MemoryStream final : public Stream {
 public:
  MemoryStream(asio::io_context& loop, std::shared_ptr<MemoryWire> wire, bool local = true,
               Ticket ticket = {})
      : Stream(std::move(ticket)),
        wire_(std::move(wire)),
        local_(local),
        readable_(loop),
        writable_(loop) {
    wire_->wake_ = [this] { wake(); };
  }
  ~MemoryStream() override {
    if (gone_) return;
    wire_->wake_ = nullptr;
    wire_->closed_ = true;
  }

  asio::awaitable<std::size_t> read_next(asio::mutable_buffer into, ErrorCode& failed) override {
    while (true) {
      const std::size_t n = read_now(into, failed);
      if (failed != asio::error::would_block) co_return n;
      const bool woken = co_await wait(readable_);
      if (woken) continue;
      failed = asio::error::operation_aborted;
      co_return 0;
    }
  }

  std::size_t read_now(asio::mutable_buffer into, ErrorCode& failed) override {
    failed = {};
    if (wire_->closed_) failed = asio::error::bad_descriptor;
    if (wire_->broken_) failed = asio::error::connection_reset;
    const std::size_t n = failed ? 0 : wire_->give_session(into);
    if (n > 0 || failed) return n;
    failed = wire_->ended_ ? ErrorCode(asio::error::eof) : ErrorCode(asio::error::would_block);
    return 0;
  }

  asio::awaitable<std::size_t> write_next(asio::const_buffer from, ErrorCode& failed) override {
    while (true) {
      const std::size_t n = write_now(std::span(&from, 1), failed);
      if (failed != asio::error::would_block) co_return n;
      const bool woken = co_await wait(writable_);
      if (woken) continue;
      failed = asio::error::operation_aborted;
      co_return 0;
    }
  }

  std::size_t write_now(std::span<const asio::const_buffer> from, ErrorCode& failed) override {
    failed = {};
    if (wire_->closed_ || wire_->broken_ || wire_->session_ended_)
      failed = asio::error::broken_pipe;
    if (failed) return 0;
    wire_->most_buffers_ = std::max(wire_->most_buffers_, from.size());
    std::size_t written = 0;
    for (const asio::const_buffer& buffer : from) {
      const std::size_t n = wire_->limited_ ? std::min(buffer.size(), wire_->room_) : buffer.size();
      wire_->to_peer_.append(static_cast<const char*>(buffer.data()), n);
      if (wire_->limited_) wire_->room_ -= n;
      written += n;
    }
    if (written == 0) failed = asio::error::would_block;
    return written;
  }

  void when_writable(std::function<void()> on_ready) override {
    if (!wire_->stuck()) return asio::post(executor(), std::move(on_ready));
    wire_->write_cancelled_ = false;
    wait_for_room(std::move(on_ready));
  }

  void cancel() override {
    cancelled_ = waiting_ > 0;
    wire_->write_cancelled_ = true;
    wake();
  }

  void end_writing() override { wire_->session_ended_ = true; }

  void close() override {
    wire_->session_ended_ = wire_->closed_ = true;
    wake();
  }

  bool move_to(asio::io_context& loop, std::function<void(std::shared_ptr<Stream>)> then) override {
    gone_ = true;
    ++wire_->moves_;
    wire_->wake_ = nullptr;
    const auto ticket = std::make_shared<Ticket>(release_ticket());
    asio::post(loop, [&loop, wire = wire_, local = local_, ticket, head = take_head(),
                      then = std::move(then)]() mutable {
      auto moved = std::make_shared<MemoryStream>(loop, wire, local, std::move(*ticket));
      moved->put_head(std::move(head));
      then(std::move(moved));
    });
    return true;
  }

  asio::any_io_executor executor() override { return readable_.get_executor(); }
  std::string peer() const override { return "memory"; }
  int socket() const override { return -1; }
  asio::ip::address address() const override {
    return asio::ip::make_address(local_ ? "127.0.0.1" : "192.0.2.1");
  }
  void outlive_outages() override { wire_->patient_ = true; }
  /// A peer that answers was not asked for a while, so that nobody waits to look again.
  PeerSigns peer_signs() const override {
    ++wire_->looks_;
    return {.silent = kSilence, .probes = wire_->answers_ ? 0U : 2U};
  }

 private:
  /// Waits for wake(). Returns true to check again, false if the wait was cancelled.
  asio::awaitable<bool> wait(asio::steady_timer& timer) {
    ErrorCode woken;
    struct Waiting {
      explicit Waiting(unsigned& of) : count(of) { ++count; }
      ~Waiting() { --count; }
      unsigned& count;
    } const here(waiting_);
    timer.expires_at(asio::steady_timer::time_point::max());
    co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, woken));
    co_return !std::exchange(cancelled_, false);
  }

  void wake() {
    readable_.cancel();
    writable_.cancel();
  }

  /// Keeps the callback in the loop, which destroys it with its other handlers.
  void wait_for_room(std::function<void()> on_ready) {
    writable_.expires_at(asio::steady_timer::time_point::max());
    writable_.async_wait(
        [this, wire = wire_, on_ready = std::move(on_ready)](const ErrorCode&) mutable {
          const bool on = wire->stuck() && !std::exchange(wire->write_cancelled_, false);
          if (on) return wait_for_room(std::move(on_ready));
          on_ready();
        });
  }

  std::shared_ptr<MemoryWire> wire_;
  const bool local_;
  asio::steady_timer readable_;
  asio::steady_timer writable_;
  unsigned waiting_ = 0;
  bool cancelled_ = false;
  bool gone_ = false;
};

}  // namespace c10dd::daemon
