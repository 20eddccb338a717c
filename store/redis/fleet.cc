// SPDX-License-Identifier: Apache-2.0
// The rows of the fleet, in one hash on the Redis server. Has a connection of its own, so that a
// long commit of the engine does not delay a heartbeat.
#include <algorithm>

#include "protocol/fields.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/parse.h"
#include "protocol/utf8.h"
#include "store/engines.h"
#include "store/redis/client.h"

namespace c10dd::store {
namespace {

using Kind = RedisReply::Kind;

constexpr std::size_t kToldBytes = 1024;  // of report_rollback(), at most
constexpr std::size_t kOwnersAtOnce = 1'024;

/// Parses "BEATS FACTS".
std::optional<DaemonRow> parse_row(std::string_view text) {
  const std::size_t space = text.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  const auto beats = parse_number<std::uint64_t>(text.substr(0, space));
  auto facts = wire::decode<DaemonFacts>(text.substr(space + 1));
  if (!beats || !facts) return std::nullopt;
  return DaemonRow{std::move(*facts), *beats};
}

class RedisFleet final : public Fleet {
 public:
  explicit RedisFleet(std::unique_ptr<RedisClient> client) : client_(std::move(client)) {}

  Result<FleetReading> read() override { return beat(0, {}); }

  Result<FleetReading> beat(const DaemonFacts& self) override {
    return beat(self.process, wire::encode(self));
  }

  Result<void> remove(std::uint64_t process, std::uint64_t beats) override {
    const Result<RedisReply> removed =
        client_->call({"EVAL", kRedisLeaveScript, "1", redis_fleet_key(prefix()),
                       redis_process(process), std::to_string(beats)});
    return done("a removal from the fleet", removed);
  }

  Result<void> report_rollback(std::string_view what) override {
    const Result<RedisReply> told =
        client_->call({"HSETNX", redis_heartbeat_count_key(prefix()), "rolled_back", what});
    return done("HSETNX", told);
  }

  Result<void> accept_rollback(const Bytes& incarnation) override {
    const Result<RedisReply> accepted = client_->call(
        {"EVAL", kRedisAcceptScript, "1", redis_heartbeat_count_key(prefix()), incarnation});
    return done("the acceptance of a rollback", accepted);
  }

  /// Asks for all owners in one write for each kOwnersAtOnce jobs.
  Result<std::vector<std::optional<Owner>>> owners(std::span<const JobNumber> jobs) override {
    std::vector<std::optional<Owner>> all;
    while (!jobs.empty()) {
      const auto some = jobs.first(std::min(jobs.size(), kOwnersAtOnce));
      jobs = jobs.subspan(some.size());
      Bytes out;
      for (const JobNumber job : some) {
        append_redis_command(out, {"HGET", redis_head_key(prefix(), job), "owner"});
      }
      if (!client_->send(out)) return client_->lost();
      for (std::size_t n = 0; n < some.size(); ++n) {
        const Result<RedisReply> reply = client_->receive();
        if (!reply) return reply.error();
        if (reply->kind != Kind::nil && !reply->is_bytes()) {
          return client_->unexpected("HGET", *reply);
        }
        all.push_back(parse_redis_owner(reply->text));
      }
    }
    return all;
  }

  std::string_view server() const override { return client_->server(); }

 private:
  const std::string& prefix() const { return client_->address().prefix; }

  /// Fails if there is no reply, or if it is no integer.
  Result<void> done(const std::string& what, const Result<RedisReply>& reply) {
    if (!reply) return reply.error();
    if (reply->kind != Kind::integer) return client_->unexpected(what, *reply);
    return {};
  }

  /// Returns whether all parts of the reply to a heartbeat have their types.
  static bool is_reading(const RedisReply& reply) {
    return reply.is_array(6) && reply.items[0].is_bytes() && reply.items[2].kind == Kind::array &&
           reply.items[2].items.size() % 2 == 0 && reply.items[4].is_bytes() &&
           reply.items[5].is_bytes();
  }

  Result<FleetReading> beat(std::uint64_t process, std::string_view facts) {
    Result<RedisReply> reply = client_->call(
        {"EVAL", kRedisBeatScript, "4", redis_fleet_key(prefix()), redis_head_key(prefix(), 0),
         redis_rows_key(prefix(), 0), redis_heartbeat_count_key(prefix()), redis_process(process),
         facts, std::to_string(limits::kDaemons)});
    if (!reply) return reply.error();
    if (reply->is_array(1) && reply->items[0].text == "full") {
      return failure(
          Code::quota_exceeded,
          "{}the fleet has {} daemons, limit {}; wait an hour until the rows of stopped daemons "
          "expire, or remove these rows from {}",
          client_->where(), limits::kDaemons, limits::kDaemons, redis_fleet_key(prefix()));
    }
    FleetReading fleet;
    if (!is_reading(*reply) || !reply->items[1].number(fleet.directory) ||
        !reply->items[3].number(fleet.heartbeat_count)) {
      return client_->unexpected("a heartbeat", *reply);
    }
    fleet.incarnation = std::move(reply->items[0].text);
    fleet.rolled_back = printable(reply->items[4].text, kToldBytes);
    fleet.accepted = std::move(reply->items[5].text);
    const std::vector<RedisReply>& pairs = reply->items[2].items;
    for (std::size_t n = 1; n < pairs.size(); n += 2) {
      std::optional<DaemonRow> row = parse_row(pairs[n].text);
      if (!row) {
        return failure(
            Code::malformed,
            "{}the row of daemon {} in {} is damaged; remove it with HDEL {} {}: a running "
            "daemon writes its row again",
            client_->where(), printable(pairs[n - 1].text, 40), redis_fleet_key(prefix()),
            redis_fleet_key(prefix()), printable(pairs[n - 1].text, 40));
      }
      fleet.daemons.push_back(std::move(*row));
    }
    std::ranges::sort(fleet.daemons, {}, [](const DaemonRow& row) { return row.facts.process; });
    return fleet;
  }

  std::unique_ptr<RedisClient> client_;
};

}  // namespace

Result<std::unique_ptr<Fleet>> open_redis_fleet(std::string_view url, Duration patience,
                                                std::string_view ca_file) {
  Result<RedisAddress> address = parse_redis_url(url);
  if (!address) return address.error();
  address->ca_file = ca_file;
  Result<std::unique_ptr<RedisClient>> client = RedisClient::open(std::move(*address), patience);
  if (!client) return client.error();
  return std::unique_ptr<Fleet>(std::make_unique<RedisFleet>(std::move(*client)));
}

}  // namespace c10dd::store
