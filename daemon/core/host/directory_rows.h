// SPDX-License-Identifier: Apache-2.0
// The directory's side of the engine: how it is read when the engine was opened, and how its
// changes are committed. On the thread that has the engine.
#pragma once

#include <memory>
#include <string>

#include "daemon/core/directory.h"
#include "daemon/core/host/directory_host.h"
#include "store/engine.h"

namespace c10dd::core {

struct DirectoryRead {
  std::unique_ptr<Directory> directory;
  std::string rolled_back;  ///< why it has a new incarnation, if the engine says so
};

/// Claims and reads the directory. Its incarnation, which is `random` if it gets a new one, is
/// durable afterwards. Fails as the engine does; malformed for a damaged row.
Result<DirectoryRead> read_directory(store::Engine& engine, const Directory::Limits& limits,
                                     std::uint64_t random, TimePoint now);

/// Commits a change of the directory, and erases the rows of the jobs that it strikes out. False if
/// that may not be durable: then the engine must be given up.
bool write_directory(store::Engine& engine, const DirectoryHost::DirectoryBatch& change);

}  // namespace c10dd::core
