// SPDX-License-Identifier: Apache-2.0
// One blocking connection to a Redis server: bytes out, checked replies in. After a failure it is
// of no more use, for what was on its way has an unknown outcome.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/error.h"

namespace c10dd::store {

struct RedisReply {
  enum class Kind : std::uint8_t { status, error, integer, bytes, nil, array };

  Kind kind = Kind::nil;
  Bytes text;  ///< of a status, an error, or bytes
  std::int64_t integer = 0;
  std::vector<RedisReply> items;

  bool is_bytes() const { return kind == Kind::bytes; }
  bool is_error(std::string_view code) const {
    return kind == Kind::error && text.starts_with(code);
  }
  bool is_array(std::size_t size) const { return kind == Kind::array && items.size() == size; }
  /// Whether it is bytes that are an unsigned decimal number and nothing else.
  bool number(std::uint64_t& value) const;
};

class RedisLink {
 public:
  /// No server, no answer for 2 s: unavailable.
  static Result<std::unique_ptr<RedisLink>> open(const std::string& host, std::uint16_t port);

  virtual ~RedisLink() = default;

  virtual Result<void> send(std::string_view bytes) = 0;

  /// The next reply, error replies included. A server that stays silent for 2 s, breaks the
  /// protocol or answers more than `bytes_max` is a failure; its announced sizes allocate nothing.
  virtual Result<RedisReply> receive(std::size_t bytes_max) = 0;
};

}  // namespace c10dd::store
