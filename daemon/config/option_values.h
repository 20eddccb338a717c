// SPDX-License-Identifier: Apache-2.0
// Each set_*() reads the text of an option and stores the value. If set_*() fails, the message says
// what is wrong with the text and what is allowed. options.cc adds where the text came from: the
// file, a variable or a flag.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "daemon/config/options.h"

namespace c10dd::daemon {

/// Sets listen, listen_host and listen_port.
Result<void> set_listen(Options& options, const std::string& text);
/// Sets listen_metrics, metrics_host and metrics_port.
Result<void> set_listen_metrics(Options& options, const std::string& text);
Result<void> set_flag(bool& value, const std::string& text);
std::string flag_text(bool value);
Result<void> set_path(std::string& value, const std::string& text);
Result<void> set_engine(Options& options, const std::string& text);
Result<void> set_durability(Options& options, const std::string& text);
Result<void> set_log_level(Options& options, const std::string& text);
Result<void> set_protocols(Options& options, const std::string& text);
Result<void> set_http_hosts(Options& options, const std::string& text);
Result<void> set_advertise(Options& options, const std::string& text);
Result<void> set_tcpstore_job(Options& options, const std::string& text);
/// Sets tcpstore_from and tcpstore_ranges.
Result<void> set_tcpstore_from(Options& options, const std::string& text);
Result<void> set_tcpstore_legacy(Options& options, const std::string& text);
Result<void> set_endpoint_ports(Options& options, const std::string& text);

std::string durability_text(const Options& options);
std::string protocols_text(const Options& options);
/// Returns the names of the protocols, separated by commas.
std::string list_of(const ProtocolSet& protocols);
std::string tcpstore_legacy_text(const Options& options);
std::string endpoint_ports_text(const Options& options);

/// Returns whether the daemon serves HTTP requests whose Host header is `host`: a name or an
/// address, with or without a port. A daemon that listens on loopback serves only requests to
/// loopback names and to the names in http_hosts. This stops DNS rebinding, in which a web page
/// points the name of its own site at this machine.
bool replies_to(const Options& options, std::string_view host);

/// Returns the addresses of Options::advertise.
std::vector<std::string> advertised(const Options& options);

/// Returns whether this is the URL of a Redis server, or a Sentinel, on another machine without
/// TLS.
bool is_insecure_redis(const std::string& engine);

/// Returns the absolute path of the state directory, or an empty text if the engine has none.
std::string state_path(const Options& options);

/// Returns a rocksdb: URL of the state directory, with an absolute path. The state directory is the
/// first path in $STATE_DIRECTORY, if systemd has set this variable. Otherwise it is /var/lib/c10dd
/// for root. For other users it is $XDG_STATE_HOME/c10dd if $XDG_STATE_HOME is an absolute path, or
/// else ~/.local/state/c10dd. Fails if ~ is needed, but the user has no home directory.
Result<std::string> default_engine();

}  // namespace c10dd::daemon
