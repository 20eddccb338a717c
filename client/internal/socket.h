// SPDX-License-Identifier: Apache-2.0
// Plain TCP for the client's connection: making it, with a way to be interrupted.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "protocol/error.h"

namespace c10dd::client {

/// A descriptor that is closed with its owner.
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

/// A non-blocking connection to host:port ([host]:port for IPv6): all addresses of the name are
/// tried in turn, each for at most `patience`. Returns early when `interrupt` becomes readable.
/// not_found: the machine is there and nobody listens.
Result<Descriptor> dial(const std::string& address, int interrupt, Duration patience);

/// What the server at the address says to `words`, its first packet only; empty: nothing within
/// `patience`, which the connection and the answer have each.
std::string first_words(const std::string& address, std::string_view words, int interrupt,
                        Duration patience);

/// The text of an errno, as error texts are written here.
std::string error_text(int number);

}  // namespace c10dd::client
