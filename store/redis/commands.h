// SPDX-License-Identifier: Apache-2.0
// The address, keys, scripts and commands that c10dd uses with Redis. Opens no connection.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "store/engine.h"

namespace c10dd::store {

/// Address, key prefix and login of a Redis server.
struct RedisAddress {
  std::string host;
  std::uint16_t port = 6379;
  std::string prefix = "c10dd";  ///< first part of every key; several services can share a server
  std::string user;              ///< empty: the server's default user
  std::string password;          ///< empty: the server needs no password
};

/// Parses //[[user]:password@]host[:port][/prefix]. An IPv6 host is in brackets; the characters / @
/// : and % of a user or password are percent-encoded. No error text contains the password.
Result<RedisAddress> parse_redis_address(std::string_view text);

/// Returns the key of the Redis hash that stores a job's JobHead as {epoch, rev, from}.
std::string redis_head_key(std::string_view prefix, JobNumber job);
/// Returns the key of the hash that has a job's rows, in the same cluster slot as the job's head.
std::string redis_rows_key(std::string_view prefix, JobNumber job);

// Lua scripts. KEYS has the key of the head, and for a commit also the key of the rows. Revisions
// and epochs stay decimal strings in the scripts, because a Lua number is a double.
extern const std::string_view kRedisClaimScript;    ///< returns {epoch, rev}
extern const std::string_view kRedisReleaseScript;  ///< ARGV = {epoch}; returns 1, or 0 if fenced
extern const std::string_view kRedisCommitScript;   ///< returns d (durable) or f (fenced) per batch

/// Appends one command to `out`.
void append_redis_command(Bytes& out, std::initializer_list<std::string_view> arguments);

/// Appends a call of kRedisCommitScript with batches of one job. If `verb` is "EVAL", `script` must
/// be the text of that script. If `verb` is "EVALSHA", `script` must be the digest. Redis limits a
/// call to a million arguments (two per put) in versions below 7, 512 MiB per value, 1 GiB in all.
void append_redis_commit(Bytes& out, std::string_view verb, std::string_view script,
                         std::string_view prefix, const std::vector<const JobBatch*>& batches);

/// Returns the durability under these settings (see Engine::durability()): "fsync", "os" or "none".
/// If the server does not return a setting, pass an empty text for the setting.
std::string_view redis_durability(std::string_view appendonly, std::string_view appendfsync,
                                  std::string_view no_appendfsync_on_rewrite,
                                  std::string_view maxmemory_policy);

}  // namespace c10dd::store
