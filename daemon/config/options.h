// SPDX-License-Identifier: Apache-2.0
// The options of the daemon with their defaults. The entry of an option in option_table.cc
// determines the option's flag, environment variable, TOML key, help and check. Only
// accept_rollback has no entry. A flag overrides the variable, and the variable overrides the file.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "daemon/config/listener_settings.h"
#include "daemon/config/protocol_names.h"
#include "daemon/core/quotas.h"
#include "protocol/error.h"
#include "protocol/limits.h"
#include "store/engine.h"

namespace c10dd::daemon {

struct Options {
  std::string listen = "127.0.0.1:29500";  ///< host:port; port 0: any free port
  bool allow_insecure_listen = false;      ///< allows a `listen` other than loopback
  std::string listen_metrics;  ///< host:port for /livez, /readyz and /metrics only; empty: none
  bool metrics_without_sentences = false;  ///< at `listen_metrics`, no label "sentence"
  std::string tls;     ///< folder of tls.crt, tls.key and ca.crt; empty: no TLS, nobody is asked
  std::string grants;  ///< file of grants; empty: only tokens of the CA of `tls` are good
  ProtocolSet protocols = ProtocolSet::all();  ///< served on this address
  std::string tcpstore_job = "torch";          ///< the job of TCPStore connections
  std::string tcpstore_from;  ///< ranges of addresses that may use TCPStore; loopback always may
  tcpstore::LegacyClients tcpstore_legacy = tcpstore::LegacyClients::detect;
  /// Of leased endpoints; no value means any free port.
  std::optional<PortRange> endpoint_ports;
  std::string http_hosts;  ///< on loopback, more names to accept as Host, separated by commas
  std::string engine;      ///< memory: | rocksdb:/path | redis://host:port
  store::Durability durability = store::Durability::fsync;
  /// Allows the daemon to start on state that has lost acknowledged changes. Only a flag can set
  /// this option: a file or a variable would stay set and silently accept the next loss too.
  bool accept_rollback = false;
  /// On a shared engine: how long this daemon may be silent before others take its jobs over.
  std::chrono::nanoseconds lease = limits::kLease;
  std::string redis_ca;               ///< file with the CA of a rediss: server; empty: the system's
  bool allow_insecure_redis = false;  ///< with `tls`, allows plain Redis on another machine
  bool redis_accept_weak_durability =
      false;               ///< starts on a Redis that may lose acknowledged writes
  std::string mark;        ///< on a shared engine: file of the newest state seen; empty: none
  std::string advertise;   ///< on a shared engine: addresses for clients; empty: that of `listen`
  std::size_t shards = 0;  ///< number of event loops, which share the jobs; 0: one per core
  std::string log_level = "info";
  std::chrono::nanoseconds drain_timeout = std::chrono::seconds(5);  ///< from SIGTERM to the end

  std::chrono::nanoseconds run_grace = limits::kRunGrace;
  std::chrono::nanoseconds idle_timeout = limits::kIdleTimeout;  ///< of a native connection

  std::size_t max_connections = 0;  ///< 0: as many as the limit of open files allows
  /// 0 means no limit for this machine, and limits::kConnectionsPerAddress for other machines.
  std::size_t max_connections_per_address = 0;
  std::size_t max_jobs = limits::kJobs;
  /// The limit for all jobs together. No value means three quarters of the machine's memory.
  std::optional<std::uint64_t> max_bytes;
  core::Quotas quotas;  ///< of each job

  /// While the disk has less free space than this, requests that let the state grow are refused. No
  /// value means that the reserve is derived from the size of the disk.
  std::optional<std::uint64_t> disk_reserve;
  std::uint64_t disk_minimum = limits::kDiskMinimum;
  std::uint64_t disk_ballast = limits::kDiskBallast;

  // Parts of `listen`, filled in by parse_options().
  std::string listen_host;  ///< without brackets
  std::uint16_t listen_port = 0;
  std::string metrics_host;  ///< of listen_metrics
  std::uint16_t metrics_port = 0;
  AddressRanges tcpstore_ranges;  ///< of tcpstore_from
};

/// The result of parse_options(), which tells main() what to do next.
struct ParsedOptions {
  bool exit = false;  ///< the help, an error or the like was printed, so main() must exit
  int exit_code = 0;  ///< 0, or 64 for a bad option, variable or file
  Options options;
  /// If set, main() must not serve, but must ask the running daemon to copy its state to this
  /// folder.
  std::string checkpoint;
};

/// Reads flags, C10DD_* variables and the file named by --config. Prints help and errors itself.
/// An error names where the value came from (for a file, the line) and what is allowed.
ParsedOptions parse_options(int argc, const char* const* argv);

}  // namespace c10dd::daemon
