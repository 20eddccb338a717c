// SPDX-License-Identifier: Apache-2.0
// What can be set, with its defaults. Declared once in option_table.cc, which gives flag,
// environment variable, TOML key, help and check. A flag beats its variable, which beats the file.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "daemon/config/protocol_names.h"
#include "daemon/core/quotas.h"
#include "protocol/error.h"
#include "protocol/limits.h"
#include "store/engine.h"

namespace c10dd::daemon {

struct Options {
  std::string listen = "127.0.0.1:29500";      ///< host:port; port 0: any free one
  bool allow_insecure_listen = false;          ///< listen may be more than loopback
  ProtocolSet protocols = ProtocolSet::all();  ///< spoken where it listens
  std::string http_hosts;  ///< names that a loopback listener answers to beside its own
  std::string engine;      ///< memory: | rocksdb:/path | redis://host:port
  store::Durability durability = store::Durability::fsync;
  /// Start on state that has lost acknowledged changes. A flag only: in a file or a variable it
  /// would accept the next loss too.
  bool accept_rollback = false;
  std::size_t shards = 0;  ///< event loops that jobs are spread over; 0: one per core
  std::string log_level = "info";
  std::chrono::nanoseconds drain_timeout = std::chrono::seconds(5);  ///< of SIGTERM

  std::chrono::nanoseconds run_grace = limits::kRunGrace;
  std::chrono::nanoseconds idle_timeout = limits::kIdleTimeout;  ///< of a native connection

  std::size_t max_connections = 0;              ///< 0: what the limit of open files allows
  std::size_t max_connections_per_address = 0;  ///< 0: limits::kConnectionsPerAddress, but of own
  std::size_t max_jobs = limits::kJobs;
  std::optional<std::uint64_t> max_bytes;  ///< of all jobs together
  core::Quotas quotas;                     ///< of each job

  std::optional<std::uint64_t> disk_reserve;  ///< with less free, growth is refused
  std::uint64_t disk_minimum = limits::kDiskMinimum;
  std::uint64_t disk_ballast = limits::kDiskBallast;

  // From `listen`, filled in by parse_options.
  std::string listen_host;  ///< without brackets
  std::uint16_t listen_port = 0;
};

/// What main() does next.
struct ParsedOptions {
  bool exit = false;  ///< help, version, print-config or an error was printed
  int exit_code = 0;  ///< 0, or 64 for a bad option, variable or file
  Options options;
  std::string checkpoint;  ///< where the daemon that runs is to write a copy; empty: serve
};

/// Reads flags, C10DD_* variables and the file named by --config. Prints help and errors itself;
/// an error says where the value came from, what is allowed, and for a file its line.
ParsedOptions parse_options(int argc, const char* const* argv);

}  // namespace c10dd::daemon
