// SPDX-License-Identifier: Apache-2.0
// Reads the directory when an engine was opened, and commits its changes. Called on the thread that
// uses the engine; both functions block until the engine has answered.
#pragma once

#include <memory>
#include <string>

#include "daemon/core/directory.h"
#include "daemon/core/host/directory_host.h"
#include "store/engine.h"

namespace c10dd::core {

struct DirectoryRead {
  std::unique_ptr<Directory> directory;
  /// Why the state was restored from an older copy or lost rows, so that the directory got a new
  /// incarnation; empty if it was not.
  std::string rolled_back;
};

/// Claims and reads the directory, and makes its incarnation durable. `random` is the incarnation
/// if it needs a new one. Fails as the engine does, with malformed for a damaged row, and with
/// unavailable if the incarnation could not be committed.
Result<DirectoryRead> read_directory(store::Engine& engine, const Directory::Limits& limits,
                                     std::uint64_t random, TimePoint now);

/// Commits a change of the directory, and erases the rows of `change.erased` in the same commit.
/// Returns false if the change may not be durable: the caller must then close the engine.
bool write_directory(store::Engine& engine, const DirectoryHost::DirectoryBatch& change);

}  // namespace c10dd::core
