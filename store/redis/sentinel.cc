// SPDX-License-Identifier: Apache-2.0
// Asks Sentinels, one after the other, which server is the master.
#include "protocol/format.h"
#include "protocol/parse.h"
#include "protocol/utf8.h"
#include "store/redis/client.h"

namespace c10dd::store {
namespace {

using Kind = RedisReply::Kind;

/// Asks one Sentinel. The reply is an array of host and port, or nil.
Result<RedisReply> ask(const RedisAddress& address, const std::string& host, std::uint16_t port,
                       Duration patience) {
  Result<std::unique_ptr<RedisLink>> link =
      RedisLink::open(host, port, patience, address.tls, address.ca_file);
  if (!link) return link.error();
  Bytes out;
  const bool login = !address.password.empty();
  if (login && address.user.empty()) append_redis_command(out, {"AUTH", address.password});
  if (login && !address.user.empty()) {
    append_redis_command(out, {"AUTH", address.user, address.password});
  }
  append_redis_command(out, {"SENTINEL", "get-master-addr-by-name", address.master});
  if (Result<void> sent = (*link)->send(out); !sent) return sent.error();
  // A Sentinel without a password refuses the login, and replies to the question.
  if (login) {
    if (Result<RedisReply> reply = (*link)->receive(1024); !reply) return reply.error();
  }
  Result<RedisReply> reply = (*link)->receive(64 * 1024);
  if (!reply || reply->kind != Kind::error) return reply;
  return failure(Code::permission_denied, "{}", foreign_text(reply->text));
}

/// Returns whether the text may be the name or address of a host.
bool is_host(std::string_view text) { return !text.empty() && printable_name(text) == text; }

}  // namespace

Result<void> find_redis_master(RedisAddress& address, Duration patience) {
  Failure failed = failure(Code::unavailable, "there is no Sentinel");
  bool unknown = false;
  for (const auto& [host, port] : address.sentinels) {
    const Result<RedisReply> reply = ask(address, host, port, patience);
    const std::string where = format("redis: the Sentinel at {}:{}: ", host, port);
    if (!reply) {
      failed = failure(reply.error().code, "{}{}", where, reply.error().detail);
      continue;
    }
    const auto number =
        reply->is_array(2) ? parse_number<std::uint16_t>(reply->items[1].text) : std::nullopt;
    if (number && reply->items[0].is_bytes() && is_host(reply->items[0].text)) {
      address.host = reply->items[0].text;
      address.port = *number;
      return {};
    }
    unknown = unknown || reply->kind == Kind::nil;
    failed = failure(Code::unavailable, "{}unexpected reply", where);
  }
  if (!unknown) return failed;
  return failure(
      Code::invalid_argument,
      "redis: the Sentinels do not know a master \"{}\"; check the name in the URL of the "
      "engine, redis+sentinel://host:port/MASTER",
      address.master);
}

}  // namespace c10dd::store
