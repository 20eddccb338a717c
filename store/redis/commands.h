// SPDX-License-Identifier: Apache-2.0
// The address, keys, scripts and commands that c10dd uses with Redis. Opens no connection.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
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
  /// If not empty, these Sentinels are asked for the address of the master, host and port.
  std::vector<std::pair<std::string, std::uint16_t>> sentinels = {};
  std::string master = {};   ///< the name of the master at the Sentinels
  bool tls = false;          ///< the server, and the Sentinels, speak TLS
  std::string ca_file = {};  ///< their CA; empty: a CA of the system
};

/// Owner of job 0, which all daemons change.
inline constexpr std::string_view kRedisNoOwner = "-";

/// Parses //[[user]:password@]host[:port][/prefix]. An IPv6 host is in brackets; the characters / @
/// : and % of a user or password are percent-encoded. No error text contains the password.
Result<RedisAddress> parse_redis_address(std::string_view text);
/// Parses //[[user]:password@]host[:port][,host[:port]...]/master[/prefix], the part of
/// redis+sentinel: URLs after the scheme. Host and port of the address stay empty.
Result<RedisAddress> parse_sentinel_address(std::string_view text);

/// Parses a URL of either kind, with its scheme: redis, redis+sentinel, or rediss and
/// rediss+sentinel for TLS.
Result<RedisAddress> parse_redis_url(std::string_view url);

/// Returns the key of the Redis hash that stores a job's JobHead as {epoch, rev, from}. It also has
/// the job's owner, the number of its rows, and the newest EpochStarts as a list of words.
std::string redis_head_key(std::string_view prefix, JobNumber job);
/// Returns the key of the hash that has a job's rows, in the same cluster slot as the job's head.
std::string redis_rows_key(std::string_view prefix, JobNumber job);

/// Returns the key of the hash that has the newest changes of job 0. Each has the field of its
/// from_rev, with its to_rev, a space, and its rows as encode_change() writes them. The field
/// `first` has the from_rev of the oldest one, `last` the to_rev of the newest one, `count` and
/// `bytes` how many there are. The field `turn` has the process that has the turn, see
/// JobBatch::turn, a space, and the time of the server in milliseconds when it ends.
std::string redis_changes_key(std::string_view prefix);

/// Encodes the rows of a change of job 0.
Bytes encode_change(const Rows& rows);
/// Appends the rows of an encoded change to `rows`. Returns false if it is malformed.
bool decode_change(std::string_view change, Rows& rows);

/// Returns the key of the set of all jobs that were claimed.
std::string redis_jobs_key(std::string_view prefix);
/// Returns the key of the hash that has a row for each daemon: its number of heartbeats, a space,
/// and its DaemonFacts.
std::string redis_fleet_key(std::string_view prefix);
/// Returns the key of the hash that tells about the whole state: `count` has the heartbeats of all
/// daemons, `rolled_back` and `accepted` are as in FleetReading.
std::string redis_heartbeat_count_key(std::string_view prefix);

/// Returns the key of kRedisProbeScript.
std::string redis_probe_key(std::string_view prefix);

/// Returns the name of a process, as it is in the names of owners and in the keys of the fleet.
std::string redis_process(std::uint64_t process);
/// Returns the name of the owner of a job.
std::string redis_owner(const Owner& owner);
/// Parses the name of an owner. Returns nothing if it is malformed.
std::optional<Owner> parse_redis_owner(std::string_view name);

// Lua scripts. Revisions, epochs and numbers of heartbeats stay decimal strings in the scripts,
// because a Lua number is a double.
/// KEYS = {head, rows, rows of job 0, fleet, jobs}. ARGV = {number of the job, process, key and
/// value of ClaimTerms::state, key and value of ClaimTerms::entry, name and heartbeats of
/// ClaimTerms::over, kEpochStarts}; what is not there is empty. Returns {epoch, rev, starts}, or
/// {"held", owner, heartbeats}, or one word: "precondition" if job 0 does not have the state,
/// "gone" if it does not have the entry, "head" if the job has rows but no head, or was claimed
/// before and has no head.
extern const std::string_view kRedisClaimScript;
/// KEYS = {head, rows} of job 0, {jobs}. Returns its rev, or "head" if it has rows but no head.
extern const std::string_view kRedisDirectoryScript;
/// KEYS = {head}. ARGV = {owner}. Returns 1, or 0 if fenced.
extern const std::string_view kRedisReleaseScript;
/// KEYS = {head}. ARGV = {owner, process}. Returns 1, or 0 if fenced.
extern const std::string_view kRedisHandOverScript;
/// KEYS = {head, rows, rows of job 0, jobs}. ARGV = {number of the job, key and value of the mark}.
/// Returns 1, or 0 if job 0 does not have the mark.
extern const std::string_view kRedisForgetScript;
/// KEYS = {fleet, head of job 0, rows of job 0, heartbeat_count}. ARGV = {process, encoded
/// DaemonFacts (empty: only read), most daemons}. Returns {incarnation, rev of job 0, rows of the
/// fleet, count, rolled_back, accepted}, or {"full"}.
extern const std::string_view kRedisBeatScript;
/// KEYS = {fleet}. ARGV = {process, heartbeats}. Removes the row if it has so many heartbeats.
extern const std::string_view kRedisLeaveScript;
/// KEYS = {heartbeat_count}. ARGV = {incarnation}. Accepts a loss; see Fleet::accept_rollback().
extern const std::string_view kRedisAcceptScript;
/// KEYS = {a key that nothing else uses}. Runs each command that the other scripts need. Returns an
/// empty array, or the first command that fails and its error.
extern const std::string_view kRedisProbeScript;
/// KEYS = {head, rows}, and {changes} of job 0.
/// Returns d (durable), f (fenced), l (lost) or a (absent) per batch.
extern const std::string_view kRedisCommitScript;
/// KEYS = {head, changes, rows} of job 0. ARGV = {a revision}. Returns {rev, number of rows,
/// changes above that revision...}, each as its rows are encoded; or an empty array if one of them
/// is missing.
extern const std::string_view kRedisChangesScript;

/// Appends one command to `out`.
void append_redis_command(Bytes& out, std::initializer_list<std::string_view> arguments);

/// Appends a call of kRedisCommitScript with batches of one job, which `process` owns. If `verb` is
/// "EVAL", `script` must be the text of that script. If `verb` is "EVALSHA", `script` must be the
/// digest. Redis limits a call to a million arguments (two per put) in versions below 7, 512 MiB
/// per value, 1 GiB in all.
void append_redis_commit(Bytes& out, std::string_view verb, std::string_view script,
                         std::string_view prefix, std::uint64_t process,
                         const std::vector<const JobBatch*>& batches);

/// The settings of a server on which it depends what acknowledged changes survive. Empty: the
/// server does not tell.
struct RedisSettings {
  std::string appendonly;
  std::string appendfsync;
  std::string no_appendfsync_on_rewrite;
  std::string maxmemory;
  std::string maxmemory_policy;
  std::string bulk_bytes = {};   ///< proto-max-bulk-len
  std::string query_bytes = {};  ///< client-query-buffer-limit
};

/// Returns the durability under these settings (see Engine::durability()): "fsync", "os" or "none".
std::string_view redis_durability(const RedisSettings& settings);
/// Returns which of these settings loses acknowledged changes, its value, and the value that it
/// must have. Empty: none does.
std::string redis_weakness(const RedisSettings& settings);
/// Returns which of these settings refuses commits of the sizes that the limits of keys and values
/// allow, its value, and the least value that it must have. Empty: none does.
std::string redis_narrowness(const RedisSettings& settings);

}  // namespace c10dd::store
