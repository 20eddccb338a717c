// SPDX-License-Identifier: Apache-2.0
#include "daemon/net/splice.h"

#include <algorithm>
#include <array>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <utility>
#include <vector>

namespace c10dd::daemon {
namespace {

constexpr std::chrono::seconds kSpliceLinger{1};

class Splice;

/// Copies from one connection to the other.
class Direction final : public StreamReader, public std::enable_shared_from_this<Direction> {
 public:
  Direction(std::shared_ptr<Splice> splice, std::shared_ptr<Stream> from,
            std::shared_ptr<Stream> to)
      : splice_(std::move(splice)), from_(std::move(from)), to_(std::move(to)) {}

  void read_on() { from_->read_into(asio::buffer(first_), shared_from_this()); }
  void on_read(std::size_t bytes, const ErrorCode& failed) override;
  /// Writes what fits, and holds the rest. Then goes on, or ends as reading has `ended`.
  void write(std::string_view bytes, const ErrorCode& ended);

 private:
  void write_held();
  void finish(const ErrorCode& ended);

  std::shared_ptr<Splice> splice_;
  const std::shared_ptr<Stream> from_;
  const std::shared_ptr<Stream> to_;
  std::array<char, 512> first_;  ///< where a read begins, while nothing has come
  Bytes held_;                   ///< read, not written yet
  ErrorCode ended_;              ///< how reading has ended, once the bytes before are written
};

class Splice : public std::enable_shared_from_this<Splice> {
 public:
  Splice(std::shared_ptr<Stream> client, std::shared_ptr<Stream> owner, std::function<void()> then)
      : client_(std::move(client)),
        owner_(std::move(owner)),
        then_(std::move(then)),
        linger_(client_->executor()) {}

  void start(std::string_view received) {
    const auto self = shared_from_this();
    std::make_shared<Direction>(self, client_, owner_)->write(received, {});
    std::make_shared<Direction>(self, owner_, client_)->read_on();
  }

  /// Notes that the direction to `to` has ended.
  void ended(const std::shared_ptr<Stream>& to, bool in_order) {
    if (++ended_ == 2) {
      linger_.cancel();
      close();
      return then_();
    }
    if (!in_order) return close();
    to->end_writing();
    if (to != client_) return;
    // A client that does not close its connection now never will.
    linger_.expires_after(kSpliceLinger);
    linger_.async_wait([self = shared_from_this()](const ErrorCode& cancelled) {
      if (!cancelled) self->close();
    });
  }

 private:
  void close() {
    client_->close();
    owner_->close();
  }

  const std::shared_ptr<Stream> client_;
  const std::shared_ptr<Stream> owner_;
  const std::function<void()> then_;
  asio::steady_timer linger_;
  int ended_ = 0;
};

void Direction::on_read(std::size_t bytes, const ErrorCode& failed) {
  if (failed) return finish(failed);
  if (bytes < first_.size()) return write({first_.data(), bytes}, {});
  // More may have come: takes it in the same step, with a buffer that all directions share.
  thread_local std::vector<char> buffer(kSplicedBytes);
  std::copy_n(first_.data(), bytes, buffer.data());
  ErrorCode ended;
  bytes += from_->read_now(asio::buffer(buffer) + bytes, ended);
  if (ended == asio::error::would_block) ended = {};
  write({buffer.data(), bytes}, ended);
}

void Direction::write(std::string_view bytes, const ErrorCode& ended) {
  ErrorCode failed;
  const asio::const_buffer all(bytes.data(), bytes.size());
  const std::size_t written = bytes.empty() ? 0 : to_->write_now(std::span(&all, 1), failed);
  if (failed && failed != asio::error::would_block) return finish(failed);
  if (written < bytes.size()) {
    held_.assign(bytes.substr(written));
    ended_ = ended;
    return write_held();
  }
  if (ended) return finish(ended);
  read_on();
}

void Direction::write_held() {
  to_->when_writable([self = shared_from_this()] {
    ErrorCode failed;
    const asio::const_buffer all = asio::buffer(self->held_);
    const std::size_t written = self->to_->write_now(std::span(&all, 1), failed);
    if (failed && failed != asio::error::would_block) return self->finish(failed);
    self->held_.erase(0, written);
    if (!self->held_.empty()) return self->write_held();
    self->held_ = {};
    if (self->ended_) return self->finish(self->ended_);
    self->read_on();
  });
}

void Direction::finish(const ErrorCode& ended) {
  if (const auto splice = std::exchange(splice_, nullptr)) {
    splice->ended(to_, ended == asio::error::eof);
  }
}

}  // namespace

void splice(std::shared_ptr<Stream> client, const Bytes& received, std::shared_ptr<Stream> owner,
            std::function<void()> then) {
  std::make_shared<Splice>(std::move(client), std::move(owner), std::move(then))->start(received);
}

}  // namespace c10dd::daemon
