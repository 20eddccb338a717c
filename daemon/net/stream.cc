// SPDX-License-Identifier: Apache-2.0
// Implements what all streams have in common: the head, write_all(), and the end.
#include "daemon/net/stream.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace c10dd::daemon {
namespace {
constexpr auto kLinger = std::chrono::seconds(1);
}

asio::awaitable<std::size_t> Stream::read_some(asio::mutable_buffer into, ErrorCode& failed) {
  if (!head_.empty()) {
    const std::size_t n = asio::buffer_copy(into, asio::buffer(head_));
    head_.erase(0, n);
    failed = {};
    co_return n;
  }
  const std::size_t n = co_await read_next(into, failed);
  co_return n;
}

void Stream::read_into(asio::mutable_buffer into, std::shared_ptr<StreamReader> reader) {
  asio::co_spawn(
      executor(),
      [this, into, reader = std::move(reader)]() -> asio::awaitable<void> {
        ErrorCode failed;
        const std::size_t n = co_await read_next(into, failed);
        reader->on_read(n, failed);
      },
      asio::detached);
}

asio::awaitable<void> Stream::write_all(asio::const_buffer from, ErrorCode& failed) {
  failed = {};
  while (from.size() > 0 && !failed) {
    const std::size_t n = co_await write_next(from, failed);
    from += n;
  }
}

asio::awaitable<void> Stream::finish_unread() {
  end_writing();
  ErrorCode ignored;
  asio::steady_timer deadline(executor(), kLinger);
  co_await deadline.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  close();
}

asio::awaitable<void> Stream::finish() {
  constexpr std::size_t kDiscardMax = 64 * 1024 * 1024;
  end_writing();
  asio::steady_timer deadline(executor(), kLinger);
  // This coroutine shares this state with the handler of `deadline`. The handler may run after the
  // coroutine has ended.
  struct End {
    bool over = false;
    bool late = false;
  };
  const auto end = std::make_shared<End>();
  deadline.async_wait([this, end](const ErrorCode& cancelled) {
    if (cancelled || end->over) return;
    end->late = true;  // ends the loop below even if cancel() finds no pending read
    cancel();
  });
  std::string discard(64 * 1024, '\0');
  std::size_t total = 0;
  ErrorCode failed;
  while (!failed && !end->late && total < kDiscardMax) {
    total += co_await read_next(asio::buffer(discard), failed);
  }
  end->over = true;
  deadline.cancel();
  close();
}

}  // namespace c10dd::daemon
