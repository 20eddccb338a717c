// SPDX-License-Identifier: Apache-2.0
// The engines that open_engine() chooses from, one function per engine. `rest` is the part of the
// URL after the scheme and its colon.
#pragma once

#include <memory>
#include <string_view>

#include "store/engine.h"
#include "store/fleet.h"
#include "store/server_watch.h"

namespace c10dd::store {

/// Opens an engine that keeps rows in memory until it is destroyed, for tests and throw-away jobs.
/// `rest` must be empty.
Result<std::unique_ptr<Engine>> open_memory_engine(std::string_view rest,
                                                   const OpenOptions& options);

/// Opens a RocksDB engine in the state directory `rest`. Creates the directory if it does not
/// exist, and keeps it locked until the engine is destroyed.
Result<std::unique_ptr<Engine>> open_rocks_engine(std::string_view rest,
                                                  const OpenOptions& options);

/// Opens an engine on a Redis server, or on the master that Sentinels name. Needs the whole URL, as
/// parse_redis_url() does.
Result<std::unique_ptr<Engine>> open_redis_engine(std::string_view url, const OpenOptions& options);

/// As open_fleet() and watch_server(), for the same URLs.
Result<std::unique_ptr<Fleet>> open_redis_fleet(std::string_view url, Duration patience,
                                                std::string_view ca_file = {});
std::unique_ptr<ServerWatch> watch_redis_server(std::string_view url,
                                                std::string_view ca_file = {});

}  // namespace c10dd::store
