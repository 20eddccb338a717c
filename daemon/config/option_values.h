// SPDX-License-Identifier: Apache-2.0
// From the text of a setting to its value, one function per form. A refusal says what is wrong
// with the text and what is allowed; where the text came from is known to options.cc only.
#pragma once

#include <string>
#include <string_view>

#include "daemon/config/options.h"

namespace c10dd::daemon {

/// Also fills in listen_host and listen_port.
Result<void> set_listen(Options& options, const std::string& text);
Result<void> set_allow_insecure_listen(Options& options, const std::string& text);
Result<void> set_engine(Options& options, const std::string& text);
Result<void> set_durability(Options& options, const std::string& text);
Result<void> set_log_level(Options& options, const std::string& text);
Result<void> set_protocols(Options& options, const std::string& text);
Result<void> set_http_hosts(Options& options, const std::string& text);

std::string durability_text(const Options& options);
std::string protocols_text(const Options& options);

/// Whether HTTP requests for this Host, a name or address with or without port, are answered: where
/// only this machine can connect, a page of another site that has its name point here is not.
bool replies_to(const Options& options, std::string_view host);

/// Whether only this machine can connect, as far as the text tells: a name other than localhost
/// counts as reachable.
bool is_loopback(const std::string& host);

/// rocksdb: in the state directory: what systemd gives, the system's for root, else the user's.
Result<std::string> default_engine();

}  // namespace c10dd::daemon
