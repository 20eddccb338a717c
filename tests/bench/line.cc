// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/line.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <stdexcept>

#include "client/internal/tls.h"

namespace c10dd::bench {
namespace {

constexpr int kNoInterrupt = -1;

volatile std::sig_atomic_t interrupted = 0;

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};

void set_time_outs(int descriptor, std::chrono::milliseconds patience) {
  const auto ms = std::max<std::int64_t>(patience.count(), 1);  // 0 would be for ever
  const timeval time{ms / 1000, ms % 1000 * 1000};
  ::setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
  ::setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
}

/// The port is chosen when connecting, so that one that is in use towards elsewhere will do.
void bind_to(int descriptor, const std::string& source) {
  const int on = 1;
  ::setsockopt(descriptor, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  if (::inet_pton(AF_INET, source.c_str(), &address.sin_addr) != 1 ||
      ::bind(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    fail_with_errno("bind to " + source);
  }
}

/// Throws the text of a failure.
template <class T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().detail);
  return std::move(*result);
}

}  // namespace

void fail_with_errno(const std::string& what) {
  throw std::runtime_error(what + ": " + std::strerror(errno));
}

void catch_interrupts() {
  struct sigaction action = {};
  action.sa_handler = [](int) { interrupted = 1; };  // without SA_RESTART
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

void throw_if_interrupted() {
  if (interrupted) throw std::runtime_error("interrupted");
}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(number_, other.number_);
  return *this;
}

Descriptor::~Descriptor() {
  if (number_ >= 0) ::close(number_);
}

std::string credential_of(const Address& daemon) {
  return daemon.tls ? must(daemon.tls->token()) : std::string();
}

Line::Line(Line&& other) noexcept = default;
Line::~Line() = default;

Line::Line(const Address& to, const std::string& source, std::chrono::milliseconds patience) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string service = std::to_string(to.port);
  const int failed = ::getaddrinfo(to.host.c_str(), service.c_str(), &hints, &found);
  if (failed != 0) throw std::runtime_error(to.host + ": " + ::gai_strerror(failed));
  const std::unique_ptr<addrinfo, FreeAddresses> addresses(found);
  descriptor_ = Descriptor(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (descriptor_.get() < 0) fail_with_errno("socket");
  set_patience(patience);
  if (!source.empty()) bind_to(descriptor_.get(), source);
  if (::connect(descriptor_.get(), found->ai_addr, found->ai_addrlen) != 0) {
    fail_with_errno(to.host + ":" + service);
  }
  const int on = 1;
  ::setsockopt(descriptor_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (to.tls) begin_handshake(to);
}

void Line::begin_handshake(const Address& to) {
  channel_ = must(to.tls->begin(to.host + ":" + std::to_string(to.port))).channel;
  must(client::shake_hands_now(*channel_, descriptor_.get()));
}

void Line::shake_hands() {
  if (!channel_ || shaken_) return;
  throw_if_interrupted();
  const Result<bool> done =
      client::shake_hands(*channel_, descriptor_.get(), kNoInterrupt, patience_);
  if (!done) throw std::runtime_error(done.error().detail);
  if (!*done) throw std::runtime_error("the TLS handshake took too long");
  shaken_ = true;
}

std::string_view Line::decrypted(std::string_view received) {
  if (!channel_) return received;
  static std::array<char, 16 * 1024> record;
  static Bytes plain;
  plain.clear();
  channel_->receive(received);
  while (const std::size_t size = must(channel_->read(record))) plain.append(record.data(), size);
  if (channel_->has_ended()) throw std::runtime_error("the server closed the connection");
  return plain;
}

void Line::encrypt(Bytes& out, std::size_t from) {
  if (!channel_ || from == out.size()) return;
  std::string_view plain = std::string_view(out).substr(from);
  while (!plain.empty()) plain.remove_prefix(must(channel_->write(plain)));
  const std::string_view encrypted = channel_->outgoing();
  out.replace(from, Bytes::npos, encrypted);
  channel_->sent(encrypted.size());
}

void Line::set_patience(std::chrono::milliseconds patience) {
  patience_ = patience;
  set_time_outs(descriptor_.get(), patience);
}

void Line::send(std::string_view bytes) {
  if (!channel_) return send_raw(bytes);
  shake_hands();
  Bytes out(bytes);
  encrypt(out, 0);
  send_raw(out);
}

void Line::send_raw(std::string_view bytes) {
  while (!bytes.empty()) {
    throw_if_interrupted();
    const ssize_t sent = ::send(descriptor_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) fail_with_errno("send");
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

void Line::receive(std::size_t messages, const std::function<std::size_t(std::string_view)>& take,
                   const std::function<void()>& before_read) {
  std::size_t used = 0;
  while (messages > 0) {
    const std::size_t size = take(std::string_view(in_).substr(used));
    used += size;
    if (size > 0) {
      --messages;
      continue;
    }
    in_.erase(0, std::exchange(used, 0));
    if (before_read) before_read();
    read();
  }
  in_.erase(0, used);
}

std::size_t Line::receive_some(const std::function<std::size_t(std::string_view)>& take) {
  read();
  std::size_t used = 0;
  std::size_t messages = 0;
  while (const std::size_t size = take(std::string_view(in_).substr(used))) {
    used += size;
    ++messages;
  }
  in_.erase(0, used);
  return messages;
}

/// Waits for bytes and appends them.
void Line::read() {
  static std::array<char, 256 * 1024> buffer;
  for (;;) {
    throw_if_interrupted();
    const ssize_t length = ::recv(descriptor_.get(), buffer.data(), buffer.size(), 0);
    if (length < 0 && errno == EINTR) continue;
    if (length < 0) fail_with_errno("receive");
    if (length == 0) throw std::runtime_error("the server closed the connection");
    in_ += decrypted({buffer.data(), static_cast<std::size_t>(length)});
    return;
  }
}

void Line::set_blocking(bool blocking) {
  const int flags = ::fcntl(descriptor_.get(), F_GETFL);
  if (::fcntl(descriptor_.get(), F_SETFL, blocking ? flags & ~O_NONBLOCK : flags | O_NONBLOCK)) {
    fail_with_errno("fcntl");
  }
}

Listening listen_anywhere() {
  Listening listening;
  listening.descriptor = Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const int socket = listening.descriptor.get();
  if (::bind(socket, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(socket, SOMAXCONN) != 0 ||
      ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    fail_with_errno("listen");
  }
  listening.port = ntohs(address.sin_port);
  return listening;
}

}  // namespace c10dd::bench
