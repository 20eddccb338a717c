// SPDX-License-Identifier: Apache-2.0
// The table, in the order of the help.
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

/// "what is spoken there: native, http or both", with the names of all protocols.
constexpr auto kSpokenText = [] {
  std::array<char, 256> text{};
  std::size_t at = 0;
  const auto put = [&](std::string_view more) {
    for (const char c : more) text[at++] = c;
  };
  put("what is spoken there: ");
  for (const ProtocolName& entry : kProtocols) {
    if (entry.protocol != kProtocols[0].protocol) put(", ");
    put(entry.name);
  }
  put(kProtocolCount == 2 ? " or both" : " or several");
  return text;
}();
constexpr std::string_view kSpoken = kSpokenText.data();

constexpr Option kOptions[] = {
    {"listen", "HOST:PORT", Form::text, "where to serve; port 0 takes any free one", set_listen,
     [](const Options& o) { return o.listen; }},
    {"allow_insecure_listen", "", Form::boolean,
     "DANGER: lets listen be an address that other machines reach.\n"
     "There is no authentication and no TLS yet: whoever reaches the\n"
     "port reads and changes every job",
     set_allow_insecure_listen,
     [](const Options& o) { return std::string(o.allow_insecure_listen ? "true" : "false"); }},
    {"protocols", "LIST", Form::text, kSpoken, set_protocols, protocols_text},
    {"http_hosts", "LIST", Form::text,
     "names beside localhost and loopback addresses that a loopback\n"
     "listener answers to in Host, as of a tunnel; others get 403, for a web\n"
     "page of another site could be asking",
     set_http_hosts, [](const Options& o) { return o.http_hosts; }},
    {"engine", "URL", Form::text,
     "where state survives: memory: (nowhere), rocksdb:/path or\n"
     "redis://[[user]:password@]host:port[/prefix]; put a password into\n"
     "the variable or the file: others see flags",
     set_engine, [](const Options& o) { return o.engine; }},
    {"durability", "WHAT", Form::text,
     "what an acknowledged write survives: fsync (power loss), os\n"
     "(death of the process) or none (SIGTERM only)",
     set_durability, durability_text},
    {"shards", "N", Form::number,
     "event loops, each with a thread, that jobs are spread over; 0: one\nper core, at most 64",
     [](Options& o, Text text) { return set_count(o.shards, text, 0, limits::kShards); },
     [](const Options& o) { return std::to_string(o.shards); }},
    {"log_level", "LEVEL", Form::text, "trace, debug, info, warn or error", set_log_level,
     [](const Options& o) { return o.log_level; }},
    {"drain_timeout", "SECONDS", Form::number,
     "how long SIGTERM takes at most, 0 to 3600 and at least a second: it\n"
     "waits for open requests, then closes the engine",
     [](Options& o, Text text) { return set_seconds(o.drain_timeout, text, 0, 3600); },
     [](const Options& o) { return seconds_text(o.drain_timeout); }},

    {"run_grace", "SECONDS", Form::number,
     "how long a run, or an empty job, stays when its last session has ended",
     [](Options& o, Text text) { return set_seconds(o.run_grace, text, 0, kDay); },
     [](const Options& o) { return seconds_text(o.run_grace); }},
    {"session_expiry", "SECONDS", Form::number,
     "how long a session outlives its last connection, unless it says",
     [](Options& o, Text text) { return set_seconds(o.quotas.session_expiry, text, 1, kDay); },
     [](const Options& o) { return seconds_text(o.quotas.session_expiry); }},
    {"idle_timeout", "SECONDS", Form::number,
     "a native connection that sends nothing for so long is closed, 1 to\n86400",
     [](Options& o, Text text) { return set_seconds(o.idle_timeout, text, 1, kDay); },
     [](const Options& o) { return seconds_text(o.idle_timeout); }},

    {"max_connections", "N", Form::number, "0: what the limit of open files allows",
     [](Options& o, Text text) { return set_count(o.max_connections, text, 0, kMany); },
     [](const Options& o) { return std::to_string(o.max_connections); }},
    {"max_connections_per_address", "N", Form::number,
     "0: 4096 from another machine, no limit from this one",
     [](Options& o, Text text) { return set_count(o.max_connections_per_address, text, 0, kMany); },
     [](const Options& o) { return std::to_string(o.max_connections_per_address); }},
    {"max_jobs", "N", Form::number, "names of jobs and their runs",
     [](Options& o, Text text) { return set_count(o.max_jobs, text, 1, kMany); },
     [](const Options& o) { return std::to_string(o.max_jobs); }},
    {"max_bytes", "SIZE", Form::text,
     "of all jobs together; auto: three quarters of this machine's memory.\n"
     "Beside it connections hold an eighth as much, at least 64MiB, of\n"
     "unfinished frames and unread answers",
     [](Options& o, Text text) { return set_auto_size(o.max_bytes, text); },
     [](const Options& o) { return auto_size_text(o.max_bytes); }},
    {"max_keys_per_job", "N", Form::number,
     "more are refused with quota_exceeded, as with all limits",
     [](Options& o, Text text) { return set_count(o.quotas.keys, text, 1, kMany); },
     [](const Options& o) { return std::to_string(o.quotas.keys); }},
    {"max_bytes_per_job", "SIZE", Form::text, "of keys and their values",
     [](Options& o, Text text) { return set_size(o.quotas.bytes, text); },
     [](const Options& o) { return size_text(o.quotas.bytes); }},
    {"max_sessions_per_job", "N", Form::number,
     "clients, also those that may come back until they expire",
     [](Options& o, Text text) { return set_count(o.quotas.sessions, text, 1, kMany); },
     [](const Options& o) { return std::to_string(o.quotas.sessions); }},
    {"max_waits_per_job", "N", Form::number, "requests that are blocked",
     [](Options& o, Text text) { return set_count(o.quotas.waits, text, 1, kMany); },
     [](const Options& o) { return std::to_string(o.quotas.waits); }},
    {"max_queue_items_per_job", "N", Form::number, "in all of its queues",
     [](Options& o, Text text) { return set_count(o.quotas.queue_items, text, 1, kMany); },
     [](const Options& o) { return std::to_string(o.quotas.queue_items); }},

    {"disk_reserve", "SIZE", Form::text,
     "with less free on the disk of the state, growth is refused, and with\n"
     "less than the engine needs to throw removed keys away; auto: 5 % of\n"
     "the disk, at least 512MiB",
     [](Options& o, Text text) { return set_auto_size(o.disk_reserve, text); },
     [](const Options& o) { return auto_size_text(o.disk_reserve); }},
    {"disk_minimum", "SIZE", Form::text,
     "with less free, only reads, removals, pops, barriers, joins and what\n"
     "opens or ends a session are taken",
     [](Options& o, Text text) { return set_size(o.disk_minimum, text); },
     [](const Options& o) { return size_text(o.disk_minimum); }},
    {"disk_ballast", "SIZE", Form::text,
     "a file that is given up when the disk is full all the same; 0: none",
     [](Options& o, Text text) { return set_size(o.disk_ballast, text); },
     [](const Options& o) { return size_text(o.disk_ballast); }},
};

}  // namespace

std::span<const Option> all_options() { return kOptions; }

}  // namespace c10dd::daemon
