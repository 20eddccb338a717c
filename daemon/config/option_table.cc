// SPDX-License-Identifier: Apache-2.0
// Defines the table of options, in the order of the help.
#include "daemon/config/option_table.h"

#include <array>

#include "daemon/config/option_numbers.h"
#include "daemon/config/option_values.h"
#include "protocol/limits.h"

namespace c10dd::daemon {
namespace {

using Form = ConfigEntry::Form;
using Text = const std::string&;

constexpr std::size_t kMany = std::size_t{1} << 32;
constexpr double kDay = 86'400;

/// Makes the text "wire protocols to serve: native, http or both" from the names of all protocols.
constexpr auto kProtocolsText = [] {
  std::array<char, 256> text{};
  std::size_t at = 0;
  const auto put = [&](std::string_view more) {
    for (const char c : more) text[at++] = c;
  };
  put("wire protocols to serve: ");
  for (const ProtocolName& entry : kProtocols) {
    if (entry.protocol != kProtocols[0].protocol) put(", ");
    put(entry.name);
  }
  put(kProtocolCount == 2 ? " or both" : " or several");
  return text;
}();
constexpr std::string_view kProtocolsHelp = kProtocolsText.data();

constexpr Option kTable[] = {
    {"listen", "HOST:PORT", Form::text, "address to serve on; port 0 takes any free port",
     set_listen, [](const Options& o) { return o.listen; }},
    {"allow_insecure_listen", "", Form::boolean,
     "DANGER: allow an address that other machines can reach without --tls:\n"
     "whoever can connect to the port can read and change every job. With\n"
     "--tls, serve both encrypted and plain clients, to move a cluster over",
     [](Options& o, Text text) { return set_flag(o.allow_insecure_listen, text); },
     [](const Options& o) { return flag_text(o.allow_insecure_listen); }},
    {"tls", "DIR", Form::text,
     "ask every client for TLS and a token: folder with tls.crt, tls.key\n"
     "and ca.crt, made by c10ddctl ca init or cert-manager. The files are\n"
     "read again when they change",
     [](Options& o, Text text) { return set_path(o.tls, text); },
     [](const Options& o) { return o.tls; }},
    {"grants", "FILE", Form::text,
     "with --tls, TOML file that says which tokens of other issuers and\n"
     "which client certificates may do what in which jobs, and which names\n"
     "of own tokens are revoked",
     [](Options& o, Text text) { return set_path(o.grants, text); },
     [](const Options& o) { return o.grants; }},
    {"listen_metrics", "HOST:PORT", Form::text,
     "a second address, which serves only /livez, /readyz and /metrics,\n"
     "without TLS and to everybody: kubelets and most Prometheus servers\n"
     "have no token",
     set_listen_metrics, [](const Options& o) { return o.listen_metrics; }},
    {"metrics_without_sentences", "", Form::boolean,
     "leave the label sentence, which may name keys, groups, hosts and\n"
     "processes, out of /metrics at the address of --listen-metrics",
     [](Options& o, Text text) { return set_flag(o.metrics_without_sentences, text); },
     [](const Options& o) { return flag_text(o.metrics_without_sentences); }},
    {"protocols", "LIST", Form::text, kProtocolsHelp, set_protocols, protocols_text},
    {"tcpstore_job", "JOB", Form::text,
     "job name for clients of PyTorch's TCPStore, which cannot send one", set_tcpstore_job,
     [](const Options& o) { return o.tcpstore_job; }},
    {"tcpstore_from", "RANGES", Form::text,
     "other machines that may use TCPStore: address ranges such as\n"
     "10.0.0.0/8, separated by commas. TCPStore has no authentication,\n"
     "so all others are refused, even with --allow-insecure-listen",
     set_tcpstore_from, [](const Options& o) { return o.tcpstore_from; }},
    {"tcpstore_legacy", "VERSION", Form::text,
     "protocol of TCPStore clients before PyTorch 2.2: 2.0 (PyTorch 1.9 to\n"
     "2.0), 2.1, or auto (detect it from what they send)",
     set_tcpstore_legacy, tcpstore_legacy_text},
    {"endpoint_ports", "LOW-HIGH", Form::text,
     "port range for the endpoints that TCPStore clients lease, for example\n"
     "29600-29699, outside the system's ephemeral ports\n"
     "(ip_local_port_range); without a value, any free port",
     set_endpoint_ports, endpoint_ports_text},
    {"http_hosts", "LIST", Form::text,
     "further host names, separated by commas, that HTTP requests may use\n"
     "to reach a listener on loopback, for example the name of a tunnel.\n"
     "localhost and loopback addresses are always allowed. Requests with\n"
     "any other Host get 403, because a web page of another site could\n"
     "have sent them",
     set_http_hosts, [](const Options& o) { return o.http_hosts; }},
    {"engine", "URL", Form::text,
     "where the state is stored: memory: (lost at exit), rocksdb:/path or\n"
     "redis://[[user]:password@]host:port[/prefix], or with Sentinels\n"
     "redis+sentinel://[[user]:password@]host:port[,...]/master[/prefix];\n"
     "rediss: and rediss+sentinel: with TLS.\n"
     "Put a password into the variable or the file: other users can see\n"
     "command lines",
     set_engine, [](const Options& o) { return o.engine; }},
    {"durability", "WHAT", Form::text,
     "what an acknowledged write survives: fsync (power loss), os (a crash\n"
     "of the daemon) or none (SIGTERM only)",
     set_durability, durability_text},
    {"lease", "SECONDS", Form::number,
     "with a shared engine (redis:), how long a daemon may be silent before\n"
     "other daemons take over its jobs, 1 to 60; use the same value for\n"
     "all daemons of the engine",
     [](Options& o, Text text) { return set_seconds(o.lease, text, 1, 60); },
     [](const Options& o) { return seconds_text(o.lease); }},
    {"advertise", "LIST", Form::text,
     "with a shared engine, the addresses, separated by commas, at which\n"
     "clients and other daemons reach this daemon; without a value, the\n"
     "address that it listens on, or the name of this machine",
     set_advertise, [](const Options& o) { return o.advertise; }},
    {"redis_ca", "FILE", Form::text,
     "CA certificates (PEM) of a Redis server with TLS (rediss:); without a\n"
     "value, the CAs of the system",
     [](Options& o, Text text) { return set_path(o.redis_ca, text); },
     [](const Options& o) { return o.redis_ca; }},
    {"allow_insecure_redis", "", Form::boolean,
     "with --tls, allow a Redis server on another machine without TLS",
     [](Options& o, Text text) { return set_flag(o.allow_insecure_redis, text); },
     [](const Options& o) { return flag_text(o.allow_insecure_redis); }},
    {"redis_accept_weak_durability", "", Form::boolean,
     "start on a Redis server that may lose acknowledged writes, because of\n"
     "its settings or because Sentinel may promote a replica",
     [](Options& o, Text text) { return set_flag(o.redis_accept_weak_durability, text); },
     [](const Options& o) { return flag_text(o.redis_accept_weak_durability); }},
    {"mark", "FILE", Form::text,
     "with a shared engine, a file in which the daemon records how new the\n"
     "state is: it refuses to start on an older state or on a different\n"
     "one. Each daemon needs its own file",
     [](Options& o, Text text) { return set_path(o.mark, text); },
     [](const Options& o) { return o.mark; }},
    {"shards", "N", Form::number,
     "number of event loops over which jobs are spread, each with its own\n"
     "thread, at most 64; 0: one per core",
     [](Options& o, Text text) { return set_count(o.shards, text, 0, limits::kShards); },
     [](const Options& o) { return std::to_string(o.shards); }},
    {"log_level", "LEVEL", Form::text, "lowest level to log: trace, debug, info, warn or error",
     set_log_level, [](const Options& o) { return o.log_level; }},
    {"drain_timeout", "SECONDS", Form::number,
     "longest time from SIGTERM to exit, 0 to 3600 (less than 1 counts as\n"
     "1): the daemon waits for open requests, then closes the engine",
     [](Options& o, Text text) { return set_seconds(o.drain_timeout, text, 0, 3600); },
     [](const Options& o) { return seconds_text(o.drain_timeout); }},

    {"run_grace", "SECONDS", Form::number,
     "how long a run, or an empty job, is kept after its last session has\n"
     "ended, 0 to 86400",
     [](Options& o, Text text) { return set_seconds(o.run_grace, text, 0, kDay); },
     [](const Options& o) { return seconds_text(o.run_grace); }},
    {"session_expiry", "SECONDS", Form::number,
     "how long a session is kept after its connection is lost, 1 to 86400,\n"
     "unless its client asks for another time",
     [](Options& o, Text text) { return set_seconds(o.quotas.session_expiry, text, 1, kDay); },
     [](const Options& o) { return seconds_text(o.quotas.session_expiry); }},
    {"idle_timeout", "SECONDS", Form::number,
     "close a native connection that has sent nothing for this long, 1 to\n86400",
     [](Options& o, Text text) { return set_seconds(o.idle_timeout, text, 1, kDay); },
     [](const Options& o) { return seconds_text(o.idle_timeout); }},

    {"max_connections", "N", Form::number,
     "maximum number of connections; 0: as many as the limit of open\nfiles allows",
     [](Options& o, Text text) { return set_count(o.max_connections, text, 0, kMany); },
     [](const Options& o) { return std::to_string(o.max_connections); }},
    {"max_connections_per_address", "N", Form::number,
     "maximum number of connections from one address; 0: 4096 from\n"
     "another machine, no limit from this one",
     [](Options& o, Text text) { return set_count(o.max_connections_per_address, text, 0, kMany); },
     [](const Options& o) { return std::to_string(o.max_connections_per_address); }},
    {"max_jobs", "N", Form::number, "maximum number of jobs and runs",
     [](Options& o, Text text) { return set_count(o.max_jobs, text, 1, kMany); },
     [](const Options& o) { return std::to_string(o.max_jobs); }},
    {"max_bytes", "SIZE", Form::text,
     "maximum memory of all jobs together; auto: three quarters of this\n"
     "machine's memory. Unfinished frames and unread replies may take an\n"
     "eighth of this maximum in addition, at least 20MiB",
     [](Options& o, Text text) { return set_auto_size(o.max_bytes, text); },
     [](const Options& o) { return auto_size_text(o.max_bytes); }},
    {"max_keys_per_job", "N", Form::number,
     "maximum number of keys in a job; a request that exceeds a limit is\n"
     "refused with quota_exceeded",
     [](Options& o, Text text) { return set_count(o.quotas.keys, text, 1, kMany); },
     [](const Options& o) { return std::to_string(o.quotas.keys); }},
    {"max_bytes_per_job", "SIZE", Form::text, "maximum size of the keys and values of a job",
     [](Options& o, Text text) { return set_size(o.quotas.bytes, text); },
     [](const Options& o) { return size_text(o.quotas.bytes); }},
    {"max_sessions_per_job", "N", Form::number,
     "maximum number of sessions of a job; disconnected ones count until\n"
     "they expire",
     [](Options& o, Text text) { return set_count(o.quotas.sessions, text, 1, kMany); },
     [](const Options& o) { return std::to_string(o.quotas.sessions); }},
    {"max_waits_per_job", "N", Form::number, "maximum number of blocked requests of a job",
     [](Options& o, Text text) { return set_count(o.quotas.waits, text, 1, kMany); },
     [](const Options& o) { return std::to_string(o.quotas.waits); }},
    {"max_queue_items_per_job", "N", Form::number, "maximum number of items in all queues of a job",
     [](Options& o, Text text) { return set_count(o.quotas.queue_items, text, 1, kMany); },
     [](const Options& o) { return std::to_string(o.quotas.queue_items); }},

    {"disk_reserve", "SIZE", Form::text,
     "free space to keep on the disk of the state. With less, or less than\n"
     "the engine needs to discard removed keys, writes that need room are\n"
     "refused; auto: 5 % of the disk, at least 512MiB",
     [](Options& o, Text text) { return set_auto_size(o.disk_reserve, text); },
     [](const Options& o) { return auto_size_text(o.disk_reserve); }},
    {"disk_minimum", "SIZE", Form::text,
     "with less free space, everything is refused except reads, removals,\n"
     "pops, barriers, joins and the start and end of a session",
     [](Options& o, Text text) { return set_size(o.disk_minimum, text); },
     [](const Options& o) { return size_text(o.disk_minimum); }},
    {"disk_ballast", "SIZE", Form::text,
     "size of a file that is deleted to make room if the disk fills up\n"
     "anyway; 0: no file",
     [](Options& o, Text text) { return set_size(o.disk_ballast, text); },
     [](const Options& o) { return size_text(o.disk_ballast); }},
};

}  // namespace

std::span<const Option> all_options() { return kTable; }

}  // namespace c10dd::daemon
