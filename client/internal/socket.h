// SPDX-License-Identifier: Apache-2.0
// Makes the TCP connections of the client. An attempt can be interrupted.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "client/internal/fork_closed.h"
#include "protocol/error.h"

namespace c10dd::client {

/// Owns a file descriptor and closes it.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), in_child_(std::move(other.in_child_)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(in_child_, other.in_child_);
    return *this;
  }
  ~Descriptor();

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

  /// Makes forked children close their copy: a connection ends with this process, although children
  /// such as data loaders live longer. In a child this object cannot be used.
  void close_in_children() { in_child_ = ForkClosed(fd_); }

 private:
  int fd_ = -1;
  ForkClosed in_child_;
};

/// Connects to host:port ([host]:port for IPv6) and returns a non-blocking socket, which forked
/// children close. Tries all
/// addresses of the name in turn, each for at most `patience`, and stops when `interrupt` becomes
/// readable. Resolves the name first (resolver.h), for at most `patience`, too. Fails with
///   Code::not_found         if the server's machine refused: no process listens at the address
///   Code::invalid_argument  if `address` has no port
///   Code::unavailable       otherwise
Result<Descriptor> dial(const std::string& address, int interrupt, Duration patience);

/// The failed attempts to connect to the addresses of a server.
class DialFailures {
 public:
  /// `error`: an errno value; EINTR if the attempt was interrupted.
  void add(int error);
  /// Returns the failure of dial() after these attempts, at least one. Code::not_found only if no
  /// process listens at any address: at one that did not reply a daemon may listen.
  Failure failure() const;

 private:
  int last_ = 0;
  bool refused_ = false;
  bool silent_ = false;  // an attempt failed for another reason than that nobody listens there
};

/// Returns whether the peer of a connected TCP socket is on another machine: the addresses of both
/// ends differ, and the peer's is not a loopback address.
bool peer_is_elsewhere(int socket);

/// Sets the options of the client's TCP connections: small delay, and a kernel that notices a dead
/// peer. Ignores options that the kernel does not have.
void set_client_options(int socket);

/// Opens a separate connection to the address, sends `probe`, and returns the first bytes of the
/// reply, at most 512; empty if there is no reply. Blocks up to `patience` for the connection, then
/// up to `patience` for the reply.
std::string first_words(const std::string& address, std::string_view probe, int interrupt,
                        Duration patience);

/// Returns the system's text for an errno value, with its first letter in lower case.
std::string error_text(int number);

}  // namespace c10dd::client
