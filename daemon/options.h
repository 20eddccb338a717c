// SPDX-License-Identifier: Apache-2.0
// What can be set, with its defaults. Declared once in options.cc, which gives flag, environment
// variable, TOML key, help and check. A flag beats its variable, which beats the file.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "protocol/error.h"
#include "store/engine.h"

namespace c10dd::daemon {

struct Options {
  std::string listen = "127.0.0.1:29500";  ///< host:port; port 0: any free one
  bool allow_insecure_listen = false;      ///< listen may be more than loopback
  std::string engine;                      ///< memory: | rocksdb:/path | redis://host:port
  store::Durability durability = store::Durability::fsync;
  std::string log_level = "info";
  std::chrono::milliseconds drain_timeout{5000};  ///< how long SIGTERM waits for open requests

  // From `listen`, filled in by parse_options.
  std::string listen_host;  ///< without brackets
  std::uint16_t listen_port = 0;
};

/// What main() does next.
struct ParsedOptions {
  bool exit = false;  ///< help, version, print-config or an error was printed
  int exit_code = 0;  ///< 0, or 64 for a bad option, variable or file
  Options options;
};

/// Reads flags, C10DD_* variables and the file named by --config. Prints help and errors itself;
/// an error says where the value came from, what is allowed, and for a file its line.
ParsedOptions parse_options(int argc, const char* const* argv);

}  // namespace c10dd::daemon
