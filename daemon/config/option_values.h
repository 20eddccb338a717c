// SPDX-License-Identifier: Apache-2.0
// Each set_*() reads the text of an option and stores its value. A failure says what is wrong with
// the text and what is allowed. options.cc adds to the failure where the text came from.
#pragma once

#include <string>
#include <string_view>

#include "daemon/config/options.h"

namespace c10dd::daemon {

/// Sets listen, listen_host and listen_port.
Result<void> set_listen(Options& options, const std::string& text);
Result<void> set_allow_insecure_listen(Options& options, const std::string& text);
Result<void> set_engine(Options& options, const std::string& text);
Result<void> set_durability(Options& options, const std::string& text);
Result<void> set_log_level(Options& options, const std::string& text);
Result<void> set_protocols(Options& options, const std::string& text);
Result<void> set_http_hosts(Options& options, const std::string& text);

std::string durability_text(const Options& options);
std::string protocols_text(const Options& options);

/// Returns whether the daemon serves HTTP requests with this Host header: a name or an address,
/// with or without a port. A listener on loopback serves only loopback names and http_hosts,
/// because a web page of another site could point its own name at this machine (DNS rebinding).
bool replies_to(const Options& options, std::string_view host);

/// Returns whether only this machine can connect to `host`. Names are not resolved: every name
/// except localhost counts as reachable from other machines.
bool is_loopback(const std::string& host);

/// Returns a rocksdb: URL of the state directory: the directory from systemd ($STATE_DIRECTORY) if
/// it is set; otherwise /var/lib/c10dd for root, and a directory in the home of any other user.
/// Fails if the user has no home.
Result<std::string> default_engine();

}  // namespace c10dd::daemon
