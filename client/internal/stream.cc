// SPDX-License-Identifier: Apache-2.0
#include "client/internal/stream.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace c10dd::client {
namespace {

constexpr std::chrono::milliseconds kConnectPatience{5'000};
constexpr std::size_t kReceiveBytes = 64 * 1024;

std::chrono::milliseconds left_until(Stream::Time end) {
  const auto left = end - std::chrono::steady_clock::now();
  return std::max(std::chrono::ceil<std::chrono::milliseconds>(left), std::chrono::milliseconds(0));
}

Failure lost(std::string why) { return failure(Code::unavailable, std::move(why)); }

}  // namespace

Result<Stream> Stream::connect(const std::string& address, Time end) {
  constexpr int kNoInterrupt = -1;
  // At least 1 ms, because an attempt without patience fails always.
  const auto patience = std::clamp(left_until(end), std::chrono::milliseconds(1), kConnectPatience);
  Result<Descriptor> socket = dial(address, kNoInterrupt, patience);
  if (!socket) return socket.error();
  return Stream(std::move(*socket));
}

Result<Stream> Stream::connect(const std::string& address, Time end, Tls::Begun with) {
  Result<Stream> made = connect(address, end);
  if (!made || !with.channel) return made;
  const auto patience = std::max(left_until(end), std::chrono::milliseconds(1));
  const Result<bool> done = shake_hands(*with.channel, made->socket_.get(), -1, patience);
  if (!done) return done.error();
  if (!*done) return handshake_too_slow(patience);
  made->channel_ = std::move(with.channel);
  return made;
}

/// Returns whether one of the events, or an error, has come until `end`.
bool Stream::await(short events, Time end) const {
  while (true) {
    pollfd polled{socket_.get(), events, 0};
    // poll() takes an int, which is less than the longest time-out.
    const auto part = std::min(left_until(end), std::chrono::milliseconds(std::chrono::hours(1)));
    const int ready = ::poll(&polled, 1, static_cast<int>(part.count()));
    if (ready > 0) return true;
    if (ready == 0 && std::chrono::steady_clock::now() >= end) return false;
  }
}

Result<void> Stream::send(std::string_view bytes, Time end) {
  if (!channel_) return send_raw(bytes, end);
  while (!bytes.empty()) {
    const Result<std::size_t> taken = channel_->write(bytes);
    if (!taken) return lost(taken.error().detail);
    bytes.remove_prefix(*taken);
    if (Result<void> sent = flush(end); !sent) return sent;
  }
  return {};
}

/// Sends what the channel has encrypted.
Result<void> Stream::flush(Time end) {
  const std::string out(channel_->outgoing());
  channel_->sent(out.size());
  return send_raw(out, end);
}

Result<bool> Stream::receive(Bytes& in, Time end) {
  if (!channel_) return receive_raw(in, end);
  const std::size_t before = in.size();
  while (true) {
    in.resize(before + kReceiveBytes);
    const Result<std::size_t> n = channel_->read({in.data() + before, kReceiveBytes});
    in.resize(before + (n ? *n : 0));
    if (!n) return lost(n.error().detail);
    if (*n > 0) return true;
    if (channel_->has_ended()) return lost("the server has closed the connection");
    Bytes encrypted;
    const Result<bool> came = receive_raw(encrypted, end);
    if (!came || !*came) return came;
    channel_->receive(encrypted);
  }
}

Result<void> Stream::send_raw(std::string_view bytes, Time end) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      if (!await(POLLOUT, end)) return lost("the server does not read the request");
    } else if (errno != EINTR) {
      return lost(error_text(errno));
    }
  }
  return {};
}

Result<bool> Stream::receive_raw(Bytes& in, Time end) {
  const std::size_t before = in.size();
  while (true) {
    if (std::chrono::steady_clock::now() >= end) return false;
    in.resize(before + kReceiveBytes);
    const ssize_t got = ::recv(socket_.get(), in.data() + before, kReceiveBytes, 0);
    const int error = errno;
    in.resize(before + (got > 0 ? static_cast<std::size_t>(got) : 0));
    if (got > 0) return true;
    if (got == 0) return lost("the server has closed the connection");
    if (error == EINTR) continue;
    if (error != EAGAIN) return lost(error_text(error));
    if (!await(POLLIN, end)) return false;
  }
}

bool Stream::is_quiet() const {
  char byte = 0;
  return ::recv(socket_.get(), &byte, 1, MSG_PEEK) < 0 && errno == EAGAIN;
}

}  // namespace c10dd::client
