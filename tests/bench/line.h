// SPDX-License-Identifier: Apache-2.0
// One blocking connection, of TCP or of TLS over it, and the interrupt that ends every wait of the
// program. Throws std::runtime_error; a wait of more than 30 s for a byte is an error, unless a
// line has another patience.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "protocol/types.h"

namespace c10dd::client {
class Tls;
class TlsChannel;
}  // namespace c10dd::client

namespace c10dd::bench {

inline constexpr std::chrono::seconds kPatience{30};

/// Throws "errno's text: what".
[[noreturn]] void fail_with_errno(const std::string& what);

/// SIGINT and SIGTERM from now on end waits with an error, so that started servers are stopped.
void catch_interrupts();
void throw_if_interrupted();

/// A file descriptor that is closed at the end.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();

  int get() const { return number_; }
  int release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

struct Address {
  std::string host;
  std::uint16_t port = 0;
  std::shared_ptr<client::Tls> tls = {};  ///< how its lines encrypt; null: they do not
};

/// What a client of this daemon shows in its hello; empty without TLS.
std::string credential_of(const Address& daemon);

class Line {
 public:
  /// From a source address of the kernel's choice, or from this one. Throws if the connection, or
  /// later a byte, takes longer than `patience`. A TLS handshake begins here, so that several lines
  /// can shake hands at the same time.
  explicit Line(const Address& to, const std::string& source = {},
                std::chrono::milliseconds patience = kPatience);
  Line(Line&& other) noexcept;
  ~Line();

  /// Sets how long the next bytes may take.
  void set_patience(std::chrono::milliseconds patience);

  /// Ends the TLS handshake; the first send() does, too. Several threads may do so, each for lines
  /// of its own.
  void shake_hands();

  void send(std::string_view bytes);

  /// Reads until `take` has taken `messages` from the head of the input. take gives the bytes of
  /// one, 0 while it is incomplete. `before_read` is called before each read, which may block.
  void receive(std::size_t messages, const std::function<std::size_t(std::string_view)>& take,
               const std::function<void()>& before_read = {});

  /// Reads once, then takes every whole message; how many.
  std::size_t receive_some(const std::function<std::size_t(std::string_view)>& take);

  /// What was received and not taken. Who reads from the descriptor takes this first.
  Bytes& input() { return in_; }

  /// Returns the plain text of bytes that were read from the descriptor. Valid until the next call
  /// for any line.
  std::string_view decrypted(std::string_view received);
  /// Makes the bytes of `out` from `from` on those for the descriptor. After the handshake only.
  void encrypt(Bytes& out, std::size_t from);

  int descriptor() const { return descriptor_.get(); }
  void set_blocking(bool blocking);

 private:
  void begin_handshake(const Address& to);
  void send_raw(std::string_view bytes);
  void read();

  Descriptor descriptor_;
  std::chrono::milliseconds patience_;
  std::unique_ptr<client::TlsChannel> channel_;  // null: not encrypted
  bool shaken_ = false;
  Bytes in_;
};

/// A listening socket on 127.0.0.1 and a free port.
struct Listening {
  Descriptor descriptor;
  std::uint16_t port = 0;
};
Listening listen_anywhere();

}  // namespace c10dd::bench
