// SPDX-License-Identifier: Apache-2.0
// Looks at a Redis server: asks the Sentinels of its URL which server is the master, then reads the
// settings of that one.
#include "store/server_watch.h"

#include "protocol/utf8.h"
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
      if (Result<void> allowed = probe(**client); !allowed) return allowed.error();
      client_ = std::move(*client);
    }
    const RedisSettings settings = read_redis_settings(*client_);
    if (!client_->usable()) return client_->lost();
    if (const std::string narrow = redis_narrowness(settings); !narrow.empty()) {
      return failure(Code::invalid_argument, "{}{}", client_->where(), narrow);
    }
    ServerState state{client_->server(), std::string(redis_durability(settings)),
                      redis_weakness(settings)};
    if (state.weakness.empty() && !address_.sentinels.empty()) {
      state.weakness =
          "the server is managed by Sentinel: a failover loses the newest changes, and a master "
          "that is cut off accepts writes that are lost later";
    }
    if (!state.weakness.empty()) state.weakness = client_->where() + state.weakness;
    return state;
  }

 private:
  /// Fails if the user may not run a command that is needed, or if the server takes no writes.
  static Result<void> probe(RedisClient& client) {
    const std::string key = redis_probe_key(client.address().prefix);
    const Result<RedisReply> digest = client.call({"SCRIPT", "LOAD", kRedisProbeScript});
    if (!digest) return digest.error();
    if (!digest->is_bytes()) return client.unexpected("SCRIPT LOAD", *digest);
    for (const auto& [verb, script] :
         {std::pair<std::string_view, std::string_view>("EVAL", kRedisProbeScript),
          {"EVALSHA", digest->text}}) {
      const Result<RedisReply> ran = client.call({verb, script, "1", key});
      if (!ran) return ran.error();
      if (ran->is_array(2)) return refused(client, ran->items[0].text, ran->items[1].text);
      if (!ran->is_array(0)) return client.unexpected("the probe of the commands", *ran);
    }
    return {};
  }

  /// Redis 7.0 has the code ERR, and not NOPERM, for a command that a script may not run.
  static Failure refused(const RedisClient& client, const Bytes& command, const Bytes& error) {
    const bool denied =
        error.find("NOPERM") != Bytes::npos || error.find("can't run this command") != Bytes::npos;
    if (!denied) {
      return failure(Code::unavailable, "{}{}: {}", client.where(), foreign_text(command),
                     foreign_text(error));
    }
    return failure(Code::permission_denied,
                   "{}the user of the engine may not run {}; allow it with ACL SETUSER",
                   client.where(), foreign_text(command));
  }

  RedisAddress address_;
  std::unique_ptr<RedisClient> client_;
};

}  // namespace

RedisSettings read_redis_settings(RedisClient& client) {
  return {client.setting("appendonly"),
          client.setting("appendfsync"),
          client.setting("no-appendfsync-on-rewrite"),
          client.setting("maxmemory"),
          client.setting("maxmemory-policy"),
          client.setting("proto-max-bulk-len"),
          client.setting("client-query-buffer-limit")};
}

std::unique_ptr<ServerWatch> watch_redis_server(std::string_view url, std::string_view ca_file) {
  Result<RedisAddress> address = parse_redis_url(url);
  if (!address) return nullptr;
  address->ca_file = ca_file;
  return std::make_unique<RedisServerWatch>(*address);
}

}  // namespace c10dd::store
