// SPDX-License-Identifier: Apache-2.0
// One blocking connection to a Redis server: sends bytes, receives checked replies. Do not use a
// connection after a failure, because commands without a reply have an unknown outcome.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/error.h"
#include "protocol/types.h"

namespace c10dd::store {

/// One reply; an array has its elements in `items`.
struct RedisReply {
  enum class Kind : std::uint8_t { status, error, integer, bytes, nil, array };

  Kind kind = Kind::nil;
  Bytes text;  ///< the bytes of a string reply, or the text of a status or an error
  std::int64_t integer = 0;
  std::vector<RedisReply> items;

  bool is_bytes() const { return kind == Kind::bytes; }
  bool is_error(std::string_view code) const {
    return kind == Kind::error && text.starts_with(code);
  }
  bool is_array(std::size_t size) const { return kind == Kind::array && items.size() == size; }
  /// Returns whether the reply is a byte string that has the form of an unsigned decimal number. If
  /// so, stores the number in `value`.
  bool number(std::uint64_t& value) const;
};

inline constexpr Duration kRedisPatience = std::chrono::seconds(2);

/// A connection. Used by one thread at a time.
class RedisLink {
 public:
  /// Connects. Fails with unavailable if the server cannot be reached within `patience`, and as
  /// connect_encrypted() does if `tls`.
  static Result<std::unique_ptr<RedisLink>> open(const std::string& host, std::uint16_t port,
                                                 Duration patience = kRedisPatience,
                                                 bool tls = false, const std::string& ca_file = {});

  virtual ~RedisLink() = default;

  /// Sends all bytes. Blocks for at most `patience` each time that the send buffer of the socket is
  /// full.
  virtual Result<void> send(std::string_view bytes) = 0;

  /// Returns the next reply, which may be an error reply. Fails if the server is silent for
  /// `patience`, breaks the protocol, or sends a reply of more than `bytes_max` or of too many
  /// elements. Allocates no memory for a string before its bytes arrive.
  virtual Result<RedisReply> receive(std::size_t bytes_max) = 0;
};

}  // namespace c10dd::store
