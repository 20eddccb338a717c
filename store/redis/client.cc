// SPDX-License-Identifier: Apache-2.0
#include "store/redis/client.h"

#include "protocol/format.h"
#include "protocol/utf8.h"

namespace c10dd::store {
namespace {

using Kind = RedisReply::Kind;

/// Returns the value of a line "name:value" of the reply to INFO; empty if there is none.
std::string_view info_line(std::string_view info, const std::string& name) {
  const std::size_t at = info.find(name + ":");
  if (at == std::string_view::npos) return {};
  const std::string_view value = info.substr(at + name.size() + 1);
  return value.substr(0, value.find_first_of("\r\n"));
}

}  // namespace

Result<std::unique_ptr<RedisClient>> RedisClient::open(RedisAddress address, Duration patience) {
  if (!address.sentinels.empty()) {
    if (Result<void> found = find_redis_master(address, patience); !found) return found.error();
  }
  std::unique_ptr<RedisClient> client(new RedisClient(std::move(address), patience));
  if (Result<void> connected = client->connect(); !connected) return connected.error();
  return client;
}

Result<void> RedisClient::connect() {
  Result<std::unique_ptr<RedisLink>> link =
      RedisLink::open(address_.host, address_.port, patience_, address_.tls, address_.ca_file);
  if (!link && link.error().code != Code::unavailable) {
    return failure(link.error().code, "{}{}", where(), link.error().detail);
  }
  if (!link) return drop(link.error().detail);
  link_ = std::move(*link);
  if (Result<void> known = log_in(); !known) return known;
  return check_server();
}

/// Checks that the server is a master and no part of a cluster, and reads its run id.
Result<void> RedisClient::check_server() {
  Result<RedisReply> role = call({"ROLE"});
  if (!role) return role.error();
  if (role->items.empty() || !role->items[0].is_bytes()) return unexpected("ROLE", *role);
  if (role->items[0].text != "master") {
    return drop(
        address_.sentinels.empty()
            ? "the server is a replica: use the address of its master"
            : "the Sentinels name this server, but it is a replica: a failover is under way");
  }
  const Result<RedisReply> info = call({"INFO"});
  if (!info) return info.error();
  if (!info->is_bytes()) return unexpected("INFO", *info);
  if (info_line(info->text, "cluster_enabled") == "1") {
    return failure(Code::unsupported,
                   "{}the server is part of a Redis Cluster, where one script cannot read the rows "
                   "of several jobs; use one master, with replicas if you like",
                   where());
  }
  server_ = foreign_text(info_line(info->text, "run_id"));
  return {};
}

/// Logs in if the address has a password. If Redis replies with an error, the failure has only the
/// text before the first comma: the text after it may quote the arguments, and so the password.
Result<void> RedisClient::log_in() {
  if (address_.password.empty()) return {};
  Bytes out;
  if (address_.user.empty()) {
    append_redis_command(out, {"AUTH", address_.password});
  } else {
    append_redis_command(out, {"AUTH", address_.user, address_.password});
  }
  if (!send(out)) return lost();
  Result<RedisReply> reply = receive();
  if (!reply) return reply.error();
  if (reply->kind == Kind::status) return {};
  if (reply->kind != Kind::error) return unexpected("AUTH", *reply);
  const bool full = reply->is_error("ERR max number of clients");
  return failure(full ? Code::unavailable : Code::permission_denied,
                 where() + foreign_text(reply->text.substr(0, reply->text.find(','))) +
                     (full ? "" : "; check the user and password in the URL of the engine"));
}

Result<RedisReply> RedisClient::call(std::initializer_list<std::string_view> arguments,
                                     std::size_t bytes_max) {
  if (!link_) return lost();
  Bytes out;
  append_redis_command(out, arguments);
  if (!send(out)) return lost();
  Result<RedisReply> reply = link_->receive(bytes_max);
  if (!reply) return drop(reply.error().detail);
  if (reply->kind != Kind::error) return reply;
  if (reply->is_error("NOAUTH")) {
    return failure(Code::permission_denied,
                   where() + foreign_text(reply->text) + "; use redis://:PASSWORD@host:port");
  }
  return failure(reply->is_error("NOPERM") ? Code::permission_denied : Code::unavailable,
                 where() + foreign_text(reply->text));
}

bool RedisClient::send(std::string_view commands) {
  if (!link_) return false;
  if (Result<void> sent = link_->send(commands); !sent) drop(sent.error().detail);
  return usable();
}

Result<RedisReply> RedisClient::receive() {
  if (!link_) return lost();
  Result<RedisReply> reply = link_->receive(kReplyBytes);
  if (!reply) return drop(reply.error().detail);
  return reply;
}

std::string RedisClient::setting(std::string_view name) {
  Result<RedisReply> reply = call({"CONFIG", "GET", name});
  return reply && reply->is_array(2) ? foreign_text(reply->items[1].text) : std::string();
}

std::string RedisClient::where() const {
  return format("redis: {}:{}: ", address_.host, address_.port);
}

Failure RedisClient::lost() const {
  return failure(
      Code::unavailable, "{}{}; check that {}", where(), cause_,
      address_.tls ? "Redis runs there and that this is its tls-port" : "Redis runs there");
}

Failure RedisClient::drop(const std::string& cause) {
  cause_ = cause;
  link_.reset();
  return lost();
}

Failure RedisClient::unexpected(const std::string& what, const RedisReply& reply) {
  return drop("unexpected reply to " + what +
              (reply.kind == Kind::error ? ": " + foreign_text(reply.text) : std::string()));
}

}  // namespace c10dd::store
