// SPDX-License-Identifier: Apache-2.0
// Makes the TCP connections of the client. An attempt can be interrupted.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "protocol/error.h"

namespace c10dd::client {

/// Owns a file descriptor and closes it.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor();

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// Connects to host:port ([host]:port for IPv6) and returns a non-blocking socket. Tries all
/// addresses of the name in turn, each for at most `patience`, and stops when `interrupt` becomes
/// readable. Fails with not_found if the machine refused the connection, because no process listens
/// there, and with unavailable otherwise. Blocks, also while the name is resolved.
Result<Descriptor> dial(const std::string& address, int interrupt, Duration patience);

/// Sends `probe` to the server at the address on a connection of its own, and returns the first
/// bytes of its reply, at most 512; empty if there is none. Blocks up to `patience` to connect, and
/// again for the reply.
std::string first_words(const std::string& address, std::string_view probe, int interrupt,
                        Duration patience);

/// Returns the text of an errno, starting in lower case.
std::string error_text(int number);

}  // namespace c10dd::client
