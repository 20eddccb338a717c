// SPDX-License-Identifier: Apache-2.0
// Looks at the server of a shared engine while the engine is open: which server it is, and what its
// settings promise. Has links of its own, so that no commit and no heartbeat waits for a look.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "protocol/error.h"

namespace c10dd::store {

/// What a look has shown.
struct ServerState {
  std::string server;      ///< as Engine::server(), of the server that a new engine would use
  std::string durability;  ///< as Engine::durability(), under the present settings
  /// Why the server may lose acknowledged changes, with the setting, its value and the one that it
  /// needs; empty if it does not.
  std::string weakness;

  bool operator==(const ServerState&) const = default;
};

/// One caller at a time; calls block.
class ServerWatch {
 public:
  virtual ~ServerWatch() = default;

  virtual Result<ServerState> look() = 0;
};

/// Makes a watch of a shared engine, without a connection yet; null if the engine is not shared, or
/// its URL is malformed. `ca_file` is OpenOptions::redis_ca.
std::unique_ptr<ServerWatch> watch_server(std::string_view url, std::string_view ca_file = {});

}  // namespace c10dd::store
