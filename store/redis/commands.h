// SPDX-License-Identifier: Apache-2.0
// What c10dd says to Redis, as bytes: address, keys, scripts, commands. Pure: no connection here.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "store/engine.h"

namespace c10dd::store {

struct RedisAddress {
  std::string host;
  std::uint16_t port = 6379;
  std::string prefix = "c10dd";  ///< of all keys, so that several services share a server
  std::string user;              ///< empty: the server's default user
  std::string password;          ///< empty: the server asks for none
};

/// Reads //[[user]:password@]host[:port][/prefix]; an IPv6 host stands in brackets, and what a user
/// or a password has of / @ : % is percent-encoded. No error has the password.
Result<RedisAddress> parse_redis_address(std::string_view text);

/// The hash {epoch, rev, from} of a job: its JobHead.
std::string redis_head_key(std::string_view prefix, JobNumber job);
/// The hash key -> value of a job's rows, in the same slot of a cluster as its head.
std::string redis_rows_key(std::string_view prefix, JobNumber job);

// Scripts of KEYS = {head, rows}. Revisions and epochs stay decimal strings: a number of a script
// is a double.
extern const std::string_view kRedisClaimScript;    ///< -> {epoch, rev}
extern const std::string_view kRedisReleaseScript;  ///< ARGV = {epoch} -> 1 or 0 (fenced)
extern const std::string_view kRedisCommitScript;   ///< -> one letter per batch, d or f

/// Appends a command.
void append_redis_command(Bytes& out, std::initializer_list<std::string_view> arguments);

/// Appends a call of kRedisCommitScript, "EVALSHA" with its digest or "EVAL" with its text, that
/// carries batches of one job. One call must stay below Redis' own limits: a million arguments
/// before version 7 (two per put), 512 MiB a value, 1 GiB in all.
void append_redis_commit(Bytes& out, std::string_view verb, std::string_view script,
                         std::string_view prefix, const std::vector<const JobBatch*>& batches);

/// What an acknowledgement is worth under these settings (empty where the server does not tell):
/// "fsync", "os" or "none", as Engine::durability().
std::string_view redis_durability(std::string_view appendonly, std::string_view appendfsync,
                                  std::string_view no_appendfsync_on_rewrite,
                                  std::string_view maxmemory_policy);

}  // namespace c10dd::store
