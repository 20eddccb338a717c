// SPDX-License-Identifier: Apache-2.0
#include "daemon/net/callback_stream.h"

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace c10dd::daemon {
namespace {

/// Calls a handler of a coroutine once, when a read has ended.
template <class Handler>
class ReadHandler final : public StreamReader {
 public:
  explicit ReadHandler(Handler handler) : handler_(std::move(handler)) {}
  void on_read(std::size_t bytes, const ErrorCode& failed) override {
    Handler handler = std::move(handler_);
    asio::get_associated_cancellation_slot(handler).clear();
    std::move(handler)(failed, bytes);
  }

 private:
  Handler handler_;
};

/// Lets `cancel` run if the operator || of two coroutines ends the waiting of `handler`.
template <class Handler, class Cancel>
void on_cancellation(const Handler& handler, Cancel cancel) {
  auto slot = asio::get_associated_cancellation_slot(handler);
  if (!slot.is_connected()) return;
  slot.assign([cancel](asio::cancellation_type) { cancel(); });
}

}  // namespace

asio::awaitable<std::size_t> CallbackStream::read_next(asio::mutable_buffer into,
                                                       ErrorCode& failed) {
  auto token = asio::redirect_error(asio::use_awaitable, failed);
  const auto start = [this, into](auto handler) {
    on_cancellation(handler, [this] { cancel(); });
    read_into(into, std::make_shared<ReadHandler<decltype(handler)>>(std::move(handler)));
  };
  co_return co_await asio::async_initiate<decltype(token), void(ErrorCode, std::size_t)>(start,
                                                                                         token);
}

asio::awaitable<std::size_t> CallbackStream::write_next(asio::const_buffer from,
                                                        ErrorCode& failed) {
  auto token = asio::use_awaitable;
  while (true) {
    const std::size_t n = write_now({&from, 1}, failed);
    if (failed != asio::error::would_block) co_return n;
    const auto start = [this](auto handler) {
      on_cancellation(handler, [this] { cancel(); });
      using Handler = decltype(handler);
      when_writable([held = std::make_shared<Handler>(std::move(handler))] {
        Handler once = std::move(*held);
        asio::get_associated_cancellation_slot(once).clear();
        std::move(once)();
      });
    };
    const unsigned cancelled = cancelled_;
    co_await asio::async_initiate<decltype(token), void()>(start, token);
    if (cancelled == cancelled_) continue;
    failed = asio::error::operation_aborted;
    co_return 0;
  }
}

}  // namespace c10dd::daemon
