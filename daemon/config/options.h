// SPDX-License-Identifier: Apache-2.0
// The options of the daemon with their defaults. Each option is declared once in option_table.cc,
// which determines its flag, environment variable, TOML key, help and check. A flag overrides its
// variable, which overrides the file.
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
  std::string listen = "127.0.0.1:29500";      ///< host:port; port 0: any free port
  bool allow_insecure_listen = false;          ///< `listen` may be an address other than loopback
  ProtocolSet protocols = ProtocolSet::all();  ///< served on this address
  std::string http_hosts;  ///< more Host names to serve on loopback, separated by commas
  std::string engine;      ///< memory: | rocksdb:/path | redis://host:port
  store::Durability durability = store::Durability::fsync;
  /// Allows a start after acknowledged changes were lost. Only a flag can set this option, because
  /// a file or a variable would stay in force and also allow a start after the next loss.
  bool accept_rollback = false;
  std::size_t shards = 0;  ///< number of event loops, which share the jobs; 0: one per core
  std::string log_level = "info";
  std::chrono::nanoseconds drain_timeout = std::chrono::seconds(5);  ///< from SIGTERM to the end

  std::chrono::nanoseconds run_grace = limits::kRunGrace;
  std::chrono::nanoseconds idle_timeout = limits::kIdleTimeout;  ///< of a native connection

  std::size_t max_connections = 0;  ///< 0: as many as the limit of open files allows
  /// 0 means limits::kConnectionsPerAddress for other machines, and no limit for this machine.
  std::size_t max_connections_per_address = 0;
  std::size_t max_jobs = limits::kJobs;
  /// The limit for all jobs together. No value means three quarters of the machine's memory.
  std::optional<std::uint64_t> max_bytes;
  core::Quotas quotas;  ///< of each job

  /// If the disk has less free space, requests that let the state grow are refused. No value means
  /// that the reserve is derived from the size of the disk.
  std::optional<std::uint64_t> disk_reserve;
  std::uint64_t disk_minimum = limits::kDiskMinimum;
  std::uint64_t disk_ballast = limits::kDiskBallast;

  // Parts of `listen`, filled in by parse_options().
  std::string listen_host;  ///< without brackets
  std::uint16_t listen_port = 0;
};

/// Tells main() what to do next.
struct ParsedOptions {
  bool exit = false;  ///< main() must exit: help, version, options or an error was printed
  int exit_code = 0;  ///< 0, or 64 for a bad option, variable or file
  Options options;
  std::string checkpoint;  ///< if set: do not serve, but ask for a copy in this folder
};

/// Reads flags, C10DD_* variables and the file named by --config. Prints help and errors itself.
/// An error names where the value came from (for a file, the line) and what is allowed.
ParsedOptions parse_options(int argc, const char* const* argv);

}  // namespace c10dd::daemon
