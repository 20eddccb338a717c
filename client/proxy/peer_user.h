// SPDX-License-Identifier: Apache-2.0
// Finds out which user of this machine has the other end of a connection over loopback. TCP does
// not tell it, but the kernel knows the owner of each socket. It is asked over netlink (sock_diag),
// at the same cost whatever the number of sockets, or by /proc/net/tcp where a sandbox has no
// netlink.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "client/internal/socket.h"
#include "protocol/error.h"

namespace c10dd::proxy {

enum class PeerUser : std::uint8_t {
  own,      ///< the user that this process has now
  other,    ///< another user, see PeerUsers::user()
  gone,     ///< the other end has been closed, so the kernel does not know its user any more
  unclear,  ///< see PeerUsers::problem()
};

/// Used by one thread at a time, in the network namespace of the sockets.
class PeerUsers {
 public:
  enum class By : std::uint8_t { any, proc };

  PeerUsers() = default;
  /// Finds out how the kernel can be asked: about `listening`, an IPv4 socket of this process.
  /// Fails with Code::unavailable if it tells nothing. `by`: proc leaves netlink out, for tests.
  static Result<PeerUsers> open(int listening, By by = By::any);

  /// Looks up the other end of an accepted IPv4 connection.
  PeerUser look(int connection);
  /// Returns the user that look() has found last, if it was another one.
  uid_t user() const { return user_; }
  /// Returns why the last result of look() was unclear.
  const std::string& problem() const { return problem_; }
  bool uses_netlink() const { return static_cast<bool>(netlink_); }

 private:
  struct Socket;
  struct Owner;

  Result<std::optional<Owner>> owner(const Socket& socket);
  Result<std::optional<Owner>> ask_netlink(const Socket& socket);

  client::Descriptor netlink_;  ///< not open: reads /proc
  std::uint32_t sequence_ = 0;
  uid_t user_ = 0;
  std::string problem_;
};

}  // namespace c10dd::proxy
