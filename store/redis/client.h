// SPDX-License-Identifier: Apache-2.0
// A connection to a Redis server that is a master, found by Sentinels if need be, logged in and
// checked. Runs commands one by one, or many in one write. After a failure of the connection, every
// call fails with its cause.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

#include "store/redis/commands.h"
#include "store/redis/link.h"

namespace c10dd::store {

class RedisClient {
 public:
  static constexpr std::size_t kReplyBytes = 16 * 1024 * 1024;

  /// Connects and logs in. Fails with unavailable if the server cannot be reached or is a replica,
  /// and with permission_denied if it refuses the login or a command. If the address has Sentinels,
  /// asks them first, and fails with invalid_argument if they know no such master.
  static Result<std::unique_ptr<RedisClient>> open(RedisAddress address,
                                                   Duration patience = kRedisPatience);

  const RedisAddress& address() const { return address_; }
  /// Returns the run id of the server, which changes whenever the server starts.
  const std::string& server() const { return server_; }
  bool usable() const { return link_ != nullptr; }

  /// Runs one command and returns its reply. Fails if the reply is an error; the connection remains
  /// usable in that case.
  Result<RedisReply> call(std::initializer_list<std::string_view> arguments,
                          std::size_t bytes_max = kReplyBytes);

  /// Sends encoded commands. Returns false if the connection is lost.
  bool send(std::string_view commands);
  /// Receives the reply to the next command that was sent. Fails if the connection is lost.
  Result<RedisReply> receive();

  /// Returns a setting of the server, printable; empty if the server does not return it.
  std::string setting(std::string_view name);

  /// Returns "redis: host:port: ", for the beginning of error texts.
  std::string where() const;
  /// Returns the failure of a connection that is lost.
  Failure lost() const;
  /// Closes the connection and returns the failure. Commands without a reply may have been applied.
  Failure drop(const std::string& cause);
  /// Closes the connection because of a reply that has not the expected form.
  Failure unexpected(const std::string& what, const RedisReply& reply);

 private:
  RedisClient(RedisAddress address, Duration patience)
      : address_(std::move(address)), patience_(patience) {}

  Result<void> connect();
  Result<void> log_in();
  Result<void> check_server();

  RedisAddress address_;
  const Duration patience_;
  std::unique_ptr<RedisLink> link_;
  std::string cause_ = "not connected";
  std::string server_;
};

/// Reads the settings of a server that decide about its durability.
RedisSettings read_redis_settings(RedisClient& client);

/// Asks the Sentinels of an address for the master, and stores its host and port in the address.
/// Fails with unavailable if none of them can be asked, and with invalid_argument if they know no
/// such master.
Result<void> find_redis_master(RedisAddress& address, Duration patience);

}  // namespace c10dd::store
