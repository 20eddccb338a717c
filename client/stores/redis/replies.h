// SPDX-License-Identifier: Apache-2.0
// Replies of a Redis server: cuts bytes into replies, and reads what each command of a store
// returns. Does no I/O. A reply of another type or size fails with malformed, and the text says
// which command, what came and what was expected.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/stores/store_server.h"
#include "protocol/error.h"

struct redisReply;

namespace c10dd {
class HiredisReader;
}

namespace c10dd::client::redis {

/// A reply, or an element of a reply. Copies share the bytes.
class Reply {
 public:
  Reply() = default;  ///< as a nil
  explicit Reply(std::shared_ptr<const redisReply> reply) : reply_(std::move(reply)) {}

  bool is_nil() const;
  bool is_error() const;
  bool is_text() const;  ///< a string or a status
  bool is_integer() const;
  bool is_array(std::size_t size) const;
  std::string_view text() const;  ///< of a text or an error; else empty
  std::int64_t integer() const;   ///< 0 if it is not an integer
  std::size_t size() const;       ///< of an array; else 0
  Reply operator[](std::size_t index) const;
  /// Returns the type with its value or size, for an error.
  std::string form() const;

 private:
  bool is(int type) const;

  std::shared_ptr<const redisReply> reply_;
};

/// Cuts the bytes of a connection into replies.
class ReplyCutter {
 public:
  ReplyCutter();
  ~ReplyCutter();

  void feed(std::string_view bytes);
  /// Returns the next reply; nothing if it is not whole. Fails with malformed if this is not a
  /// Redis server, and with too_large if the reply exceeds a limit.
  Result<std::optional<Reply>> next();
  bool has_rest() const;  ///< whether bytes are left that belong to no reply

 private:
  std::unique_ptr<HiredisReader> reader_;
};

/// Returns the failure for an error reply:
///   permission_denied  the server wants a login or does not permit the command
///   wrong_type         a key of the store has another type of Redis
///   quota_exceeded     the server's memory is full
///   unsupported        the server is part of a Redis Cluster
///   unavailable        the server cannot do this now; nothing was changed
///   internal           any other error
Failure refused(std::string_view text);

/// Returns the failure for a reply that a command never has.
Failure unexpected(std::string_view command, const Reply& reply, std::string_view expected);

// Each reads the reply to a command, or to an operation of the script (script.h).
Result<void> read_login(const Reply& reply);
Result<std::string> read_digest(const Reply& reply);  ///< of SCRIPT LOAD
Result<std::uint64_t> read_number(std::string_view command, const Reply& reply);
Result<void> read_set(const Reply& reply);
Result<Found> read_values(const Reply& reply, const StoreServer::Keys& keys);
Result<Found> read_presence(const Reply& reply, const StoreServer::Keys& keys);
Result<std::int64_t> read_sum(const Reply& reply, const std::string& key, std::int64_t delta);
Result<std::string> read_compared(const Reply& reply, const std::string& expected,
                                  const std::string& desired);
Result<std::optional<std::string>> read_item(const Reply& reply);
Result<StoreServer::Keys> read_names(const Reply& reply, std::string_view prefix);

/// A reply on a connection with subscriptions: {kind, channel, payload}.
struct ChannelReply {
  std::string kind;  ///< subscribe, unsubscribe or message
  std::string channel;
  std::int64_t left = 0;  ///< of the first two: how many channels are subscribed to
};
Result<ChannelReply> read_channel(std::string_view command, const Reply& reply);

}  // namespace c10dd::client::redis
