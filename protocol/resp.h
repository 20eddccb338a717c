// SPDX-License-Identifier: Apache-2.0
// Encodes commands in RESP 2, the binary-safe protocol of Redis.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "protocol/types.h"

namespace c10dd {

/// Collects the arguments of one command.
class RespCommand {
 public:
  RespCommand& operator<<(std::string_view argument) {
    ++count_;
    body_ += '$';
    body_ += std::to_string(argument.size());
    body_.append("\r\n").append(argument).append("\r\n");
    return *this;
  }
  RespCommand& operator<<(std::uint64_t number) { return *this << std::to_string(number); }

  /// Appends the command to `out`.
  void append_to(Bytes& out) const {
    out += '*';
    out += std::to_string(count_);
    out.append("\r\n").append(body_);
  }

 private:
  std::size_t count_ = 0;
  Bytes body_;
};

}  // namespace c10dd
