// SPDX-License-Identifier: Apache-2.0
// Looks at a Redis server: asks the Sentinels of its URL which server is the master, then reads the
// settings of that one.
#include "store/server_watch.h"

#include "store/engines.h"
#include "store/redis/client.h"

namespace c10dd::store {
namespace {

class RedisServerWatch final : public ServerWatch {
 public:
  explicit RedisServerWatch(RedisAddress address) : address_(std::move(address)) {}

  /// Connects anew if the last look failed, or if the Sentinels name another server.
  Result<ServerState> look() override {
    if (!address_.sentinels.empty()) {
      const auto before = std::pair(address_.host, address_.port);
      if (Result<void> found = find_redis_master(address_, kRedisPatience); !found) {
        return found.error();
      }
      if (before != std::pair(address_.host, address_.port)) client_.reset();
    }
    if (!client_ || !client_->usable()) {
      RedisAddress address = address_;
      address.sentinels.clear();  // they were asked just now
      Result<std::unique_ptr<RedisClient>> client = RedisClient::open(std::move(address));
      if (!client) return client.error();
      client_ = std::move(*client);
    }
    const RedisSettings settings = read_redis_settings(*client_);
    if (!client_->usable()) return client_->lost();
    ServerState state{client_->server(), std::string(redis_durability(settings)),
                      redis_weakness(settings)};
    if (state.weakness.empty() && !address_.sentinels.empty()) {
      state.weakness =
          "it is under Sentinel: a failover loses the newest changes, and a master that is cut off "
          "takes writes that are lost later";
    }
    if (!state.weakness.empty()) state.weakness = client_->where() + state.weakness;
    return state;
  }

 private:
  RedisAddress address_;
  std::unique_ptr<RedisClient> client_;
};

}  // namespace

RedisSettings read_redis_settings(RedisClient& client) {
  return {client.setting("appendonly"), client.setting("appendfsync"),
          client.setting("no-appendfsync-on-rewrite"), client.setting("maxmemory"),
          client.setting("maxmemory-policy")};
}

std::unique_ptr<ServerWatch> watch_redis_server(std::string_view url) {
  const Result<RedisAddress> address = parse_redis_url(url);
  if (!address) return nullptr;
  return std::make_unique<RedisServerWatch>(*address);
}

}  // namespace c10dd::store
