// SPDX-License-Identifier: Apache-2.0
// Encodes the commands, and parses addresses and settings.
#include "store/redis/commands.h"

#include <cstddef>
#include <utility>

#include "protocol/fields.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/parse.h"
#include "protocol/resp.h"
#include "protocol/server_url.h"
#include "store/job_head.h"

namespace c10dd::store {
namespace {

/// Returns the end of the consecutive rows that start at `begin` and have the same kind. Such rows
/// are encoded as a letter for the kind, the number of rows, and the arguments of the rows.
std::size_t run_end(const std::vector<RowView>& rows, std::size_t begin) {
  std::size_t end = begin;
  while (end < rows.size() && rows[end].kind == rows[begin].kind) ++end;
  return end;
}

/// Returns how many arguments append_rows() appends for the rows.
std::size_t arguments_of(const std::vector<RowView>& rows) {
  std::size_t count = 0;
  for (std::size_t at = 0, end = 0; at < rows.size(); at = end) {
    end = run_end(rows, at);
    count += 2 + (end - at) * (rows[at].kind == Row::Kind::put ? 2 : 1);
  }
  return count;
}

const char* letter_of(Row::Kind kind) {
  if (kind == Row::Kind::put) return "p";
  return kind == Row::Kind::erase ? "e" : "x";
}

bool erases(const std::vector<const JobBatch*>& batches) {
  for (const JobBatch* batch : batches) {
    for (const RowView& row : batch->rows) {
      if (row.kind != Row::Kind::put) return true;
    }
  }
  return false;
}

void append_rows(RespCommand& command, const std::vector<RowView>& rows) {
  for (std::size_t at = 0, end = 0; at < rows.size(); at = end) {
    end = run_end(rows, at);
    const bool put = rows[at].kind == Row::Kind::put;
    command << letter_of(rows[at].kind) << end - at;
    for (std::size_t row = at; row < end; ++row) {
      command << rows[row].key;
      if (put) command << rows[row].value;
    }
  }
}

/// Returns whether a prefix has only letters, digits and `-_.:` (braces would set the hash slot).
bool plain(std::string_view prefix) {
  for (const char c : prefix) {
    const bool ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    c == '-' || c == '_' || c == '.' || c == ':';
    if (!ok) return false;
  }
  return true;
}

/// Returns whether the server may evict rows. No row has a TTL, so the policies volatile-* evict
/// none.
bool evicts(const RedisSettings& settings) {
  return settings.maxmemory != "0" &&
         (settings.maxmemory_policy.empty() || settings.maxmemory_policy.starts_with("allkeys"));
}

constexpr const char* kBadPrefix = "the prefix may have only letters, digits and - _ . :";
constexpr std::uint16_t kSentinelPort = 26379;

Failure refused_address(const std::string& scheme, std::string_view text, std::string_view form,
                        const std::string& why) {
  return failure(Code::invalid_argument, "engine: {}: {}; use {}{}",
                 without_password(scheme + std::string(text)), why, scheme, form);
}

}  // namespace

Result<RedisAddress> parse_redis_address(std::string_view text) {
  const auto refused = [text](const std::string& why) {
    return refused_address("redis:", text, "//[[user]:password@]host:port[/prefix]", why);
  };
  Result<ServerUrl> url = parse_server_url(text);
  if (!url) return refused(url.error().detail);
  RedisAddress address;
  address.host = std::move(url->host);
  if (url->port != 0) address.port = url->port;
  if (!url->path.empty()) address.prefix = std::move(url->path);
  address.user = std::move(url->user);
  address.password = std::move(url->password);
  if (!plain(address.prefix)) return refused(kBadPrefix);
  return address;
}

Result<RedisAddress> parse_sentinel_address(std::string_view text) {
  const auto refused = [text](const std::string& why) {
    return refused_address("redis+sentinel:", text,
                           "//[[user]:password@]host:port[,host:port...]/master[/prefix]", why);
  };
  const std::size_t slash = std::min(text.find('/', 2), text.size());
  std::string_view authority = text.substr(0, slash);
  std::string_view path = text.substr(std::min(slash + 1, text.size()));
  RedisAddress address;
  // Each host is parsed as a URL of its own; the first one has the login.
  while (!authority.empty()) {
    const std::size_t comma = authority.find(',', authority.rfind('@') + 1);
    Result<ServerUrl> url = parse_server_url((address.sentinels.empty() ? "" : "//") +
                                             std::string(authority.substr(0, comma)));
    if (!url) return refused(url.error().detail);
    if (address.sentinels.empty()) {
      address.user = std::move(url->user);
      address.password = std::move(url->password);
    }
    address.sentinels.emplace_back(std::move(url->host),
                                   url->port != 0 ? url->port : kSentinelPort);
    authority.remove_prefix(comma == std::string_view::npos ? authority.size() : comma + 1);
  }
  if (address.sentinels.empty() || text.substr(0, slash).ends_with(',')) {
    return refused("a Sentinel has no host");
  }
  const std::size_t end = path.find('/');
  address.master = path.substr(0, end);
  if (end != std::string_view::npos && end + 1 < path.size()) address.prefix = path.substr(end + 1);
  if (address.master.empty()) return refused("the URL does not name a master after the Sentinels");
  if (!plain(address.master))
    return refused("the name of the master may have only letters, digits and - _ . :");
  if (!plain(address.prefix)) return refused(kBadPrefix);
  return address;
}

Result<RedisAddress> parse_redis_url(std::string_view url) {
  const std::size_t colon = std::min(url.find(':'), url.size() - 1);
  const std::string_view scheme = url.substr(0, colon);
  const std::string_view rest = url.substr(colon + 1);
  Result<RedisAddress> address =
      scheme.ends_with("+sentinel") ? parse_sentinel_address(rest) : parse_redis_address(rest);
  if (address) address->tls = scheme.starts_with("rediss");
  return address;
}

std::string redis_head_key(std::string_view prefix, JobNumber job) {
  return format("{}:{{{}}}:meta", prefix, job);
}

std::string redis_rows_key(std::string_view prefix, JobNumber job) {
  return format("{}:{{{}}}:rows", prefix, job);
}

std::string redis_changes_key(std::string_view prefix) {
  return format("{}:{{0}}:changes", prefix);
}

Bytes encode_change(const Rows& rows) {
  Bytes change;
  wire::Writer out(change);
  for (const RowView& row : rows) {
    out.put(row.kind);
    out.put(row.key);
    out.put(row.value);
  }
  return change;
}

bool decode_change(std::string_view change, Rows& rows) {
  wire::Reader in(change);
  while (in.ok() && !in.at_end()) {
    Row row;
    in.get(row.kind);
    in.get(row.key);
    in.get(row.value);
    if (!in.ok() || row.kind > Row::Kind::erase_prefix) return false;
    rows.push_back(row);
  }
  return in.ok();
}

std::string redis_jobs_key(std::string_view prefix) { return format("{}:jobs", prefix); }

std::string redis_fleet_key(std::string_view prefix) { return format("{}:fleet", prefix); }

std::string redis_heartbeat_count_key(std::string_view prefix) {
  return format("{}:pulse", prefix);
}

std::string redis_probe_key(std::string_view prefix) { return format("{}:probe", prefix); }

std::string redis_process(std::uint64_t process) { return format("{:016x}", process); }

std::string redis_owner(const Owner& owner) {
  return format("{}:{}", owner.epoch, redis_process(owner.process));
}

std::optional<Owner> parse_redis_owner(std::string_view name) {
  const std::size_t colon = name.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto epoch = parse_number<Epoch>(name.substr(0, colon));
  const auto process = parse_number<std::uint64_t>(name.substr(colon + 1), 16);
  if (!epoch || !process) return std::nullopt;
  return Owner{*epoch, *process};
}

void append_redis_command(Bytes& out, std::initializer_list<std::string_view> arguments) {
  RespCommand command;
  for (const std::string_view argument : arguments) command << argument;
  command.append_to(out);
}

void append_redis_commit(Bytes& out, std::string_view verb, std::string_view script,
                         std::string_view prefix, std::uint64_t process,
                         const std::vector<const JobBatch*>& batches) {
  const JobNumber job = batches.front()->job;
  const std::vector<Ownership>& guards = batches.front()->guards;
  C10DD_ASSERT(guards.empty() || batches.size() == 1);
  RespCommand command;
  const bool owned = job != 0;
  command << verb << script << (owned ? 2 : 3) + guards.size() << redis_head_key(prefix, job)
          << redis_rows_key(prefix, job);
  if (!owned) command << redis_changes_key(prefix);
  for (const Ownership& guard : guards) command << redis_head_key(prefix, guard.job);
  command << batches.size() << (erases(batches) ? 1 : 0);
  for (const JobBatch* batch : batches) {
    C10DD_ASSERT(well_formed(*batch));
    const std::vector<RowView> rows(batch->rows.begin(), batch->rows.end());
    command << (owned ? redis_owner({batch->epoch, process}) : std::string(kRedisNoOwner))
            << batch->from_rev << batch->to_rev << arguments_of(rows);
    append_rows(command, rows);
    if (!owned) command << encode_change(batch->rows);
  }
  if (!owned) command << redis_process(process) << (batches.back()->turn ? 1 : 0);
  for (const Ownership& guard : guards) command << redis_owner({guard.epoch, process});
  command.append_to(out);
}

std::string_view redis_durability(const RedisSettings& settings) {
  if (settings.appendonly != "yes" || evicts(settings)) return "none";
  const bool synced =
      settings.appendfsync == "always" && settings.no_appendfsync_on_rewrite == "no";
  return synced ? "fsync" : "os";
}

std::string redis_weakness(const RedisSettings& settings) {
  struct Wanted {
    std::string_view name;
    const std::string& value;
    std::string_view good;
  };
  const Wanted wanted[] = {{"appendonly", settings.appendonly, "yes"},
                           {"appendfsync", settings.appendfsync, "always"},
                           {"no-appendfsync-on-rewrite", settings.no_appendfsync_on_rewrite, "no"}};
  for (const Wanted& setting : wanted) {
    if (setting.value == setting.good) continue;
    if (setting.value.empty()) {
      return format("cannot read the setting {} (it must be {}): allow this user CONFIG GET",
                    setting.name, setting.good);
    }
    return format("the setting {} is {}, but must be {}", setting.name, setting.value,
                  setting.good);
  }
  if (!evicts(settings)) return {};
  return format(
      "the setting maxmemory-policy is {} with maxmemory {}, so Redis may evict rows; set it to "
      "noeviction",
      settings.maxmemory_policy, settings.maxmemory);
}

std::string redis_narrowness(const RedisSettings& settings) {
  // A commit gathers up to 32 MiB, and may then take one more batch with its largest value.
  constexpr std::uint64_t kBulkLeast = 2 * limits::kValueBytes;
  constexpr std::uint64_t kQueryLeast = 64 * 1024 * 1024;
  const auto narrow = [](std::string_view name, const std::string& value, std::uint64_t least) {
    const auto bytes = parse_number<std::uint64_t>(value);
    if (!bytes || *bytes >= least) return std::string();
    return format(
        "the setting {} is {}, but must be at least {}: otherwise Redis always refuses large "
        "values",
        name, value, least);
  };
  std::string found = narrow("proto-max-bulk-len", settings.bulk_bytes, kBulkLeast);
  if (!found.empty()) return found;
  return narrow("client-query-buffer-limit", settings.query_bytes, kQueryLeast);
}

}  // namespace c10dd::store
