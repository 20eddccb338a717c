// SPDX-License-Identifier: Apache-2.0
// Channel: one end of a TLS connection without its socket. Takes the bytes that came, gives those
// to be sent, and the plain ones in between. No clock, no I/O.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "protocol/tls/context.h"

struct ssl_st;

namespace c10dd::tls {

/// Not thread-safe. After a failure only outgoing() may be called: it has the alert for the peer.
class Channel {
 public:
  /// `host`: what a client has connected to, a DNS name or an address. It must be in the peer's
  /// certificate if the context checks hosts.
  explicit Channel(const Context& context, const std::string& host = "");
  ~Channel();
  Channel(Channel&& other) noexcept;
  Channel& operator=(Channel&& other) = delete;

  /// Takes bytes that came from the peer.
  void receive(std::string_view bytes);
  /// Notes that the peer sends no more.
  void receive_end();

  /// Goes on with the handshake. Returns whether it is done. A client must call it first. Fails
  /// with unavailable if the peer has ended, and with permission_denied otherwise: the text says
  /// why, and what to do.
  Result<bool> shake_hands();
  bool is_open() const { return open_; }

  /// Decrypts into `into`. Returns the number of bytes; 0: more must come first, or the peer has
  /// ended (see has_ended()). Needs an open channel.
  Result<std::size_t> read(std::span<char> into);
  /// Encrypts the begin of `plain`, at most one record. Returns how many bytes that was. Needs an
  /// open channel.
  Result<std::size_t> write(std::string_view plain);
  /// Says that this end sends no more.
  void close();

  /// Bytes for the peer. Valid until the next call.
  std::string_view outgoing() const;
  /// Notes that the first `count` of them were sent.
  void sent(std::size_t count);

  /// Returns whether the peer has said that it sends no more. If the bytes ended without that, an
  /// attacker may have cut them.
  bool has_ended() const { return ended_; }
  /// Returns the certificate of the peer, which was verified; nothing: it has shown none, or a
  /// client has shown one that is not good.
  std::optional<Certificate> peer() const;
  /// Returns why the certificate that a client has shown is not good, and what to do; empty if it
  /// has shown none, or a good one.
  std::string peer_refused() const;
  /// Returns Key::hash() of the CA for which the certificate of the peer was good; empty if peer()
  /// returns nothing.
  std::string peer_ca() const;
  /// Returns the version, such as "TLSv1.3".
  std::string version() const;
  /// Bytes that are held for either direction.
  std::size_t held() const;

 private:
  struct Bytes;

  Failure failed(int result);

  const Context context_;  // OpenSSL does not keep all of it
  std::string host_;
  std::unique_ptr<Bytes> bytes_;
  std::unique_ptr<ssl_st, void (*)(ssl_st*)> ssl_;
  bool open_ = false;
  bool ended_ = false;
};

}  // namespace c10dd::tls
