// SPDX-License-Identifier: Apache-2.0
// One connection to a Redis server: sends commands, receives replies, waits for the messages of
// channels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/internal/stream.h"
#include "client/stores/store_server.h"
#include "protocol/error.h"
#include "protocol/resp.h"

struct redisReader;
struct redisReply;

namespace c10dd::client::redis {

/// A reply, or an element of a reply. Copies share the bytes.
class Reply {
 public:
  Reply() = default;  ///< as a nil
  explicit Reply(redisReply* reply);

  bool is_nil() const;
  bool is_error() const;
  std::string_view text() const;  ///< of a string, a status or an error; else empty
  std::int64_t integer() const;   ///< 0 if it is no integer
  std::size_t size() const;       ///< of an array; else 0
  Reply operator[](std::size_t index) const;

 private:
  std::shared_ptr<const redisReply> reply_;
};

/// A call of the script, see script.h. The texts are not owned.
struct ScriptCall {
  std::vector<std::string_view> keys;
  std::vector<std::string_view> arguments;
};

/// Used by one thread at a time.
class Link {
 public:
  /// Connects, logs in, and makes the script known to the server, if the server has forgotten it.
  /// Fails with unavailable or not_found if the server cannot be reached or is not ready, with
  /// permission_denied, or with malformed if the server does not speak the protocol of Redis.
  static Result<std::unique_ptr<Link>> open(const ServerUrl& url, std::string_view script,
                                            Clock::time_point end);

  /// Makes a command. Fails with unavailable if the connection is lost, or if there is no reply
  /// until reply_end(end). Fails as refused() says if the reply is an error.
  Result<Reply> call(const RespCommand& command, Clock::time_point end);

  /// Runs the script. Fails as call() does.
  Result<Reply> run_script(const ScriptCall& call, Clock::time_point end);

  /// Subscribes to channels, which must be distinct. Until unsubscribe(), only next_message() may
  /// be called.
  Result<void> subscribe(const std::vector<std::string>& channels, Clock::time_point end);
  /// Returns the channel of the next message; empty if none has come until `end`.
  Result<std::string> next_message(Clock::time_point end);
  Result<void> unsubscribe(Clock::time_point end);

  bool is_usable() const { return !lost_ && !subscribed_ && stream_.is_quiet(); }
  bool is_lost() const { return lost_; }

 private:
  explicit Link(Stream stream);
  Result<void> log_in(const ServerUrl& url, Clock::time_point end);
  Result<void> send(const RespCommand& command, Clock::time_point end);
  Result<Reply> receive(Clock::time_point end);
  Result<std::optional<Reply>> receive_until(Clock::time_point end);
  Failure lose(std::string why);

  Stream stream_;
  std::shared_ptr<redisReader> reader_;
  std::string_view script_;
  std::string digest_;
  bool lost_ = false;
  bool subscribed_ = false;
};

/// Returns the failure for an error reply:
///   permission_denied  the server wants a login or does not permit the command
///   wrong_type         a key of the store has another type of Redis
///   quota_exceeded     the server's memory is full
///   unsupported        the server is part of a Redis Cluster
///   unavailable        the server cannot do this now; nothing was changed
///   internal           any other error
Failure refused(std::string_view text);

}  // namespace c10dd::client::redis
