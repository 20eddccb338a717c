// SPDX-License-Identifier: Apache-2.0
// Reads the directory of jobs from a newly opened engine, and commits changes of the directory.
// DirectoryReading follows the changes of other daemons.
// Called on the thread that uses the engine; both functions block until the engine has replied.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "daemon/core/directory/directory.h"
#include "daemon/core/directory/directory_host.h"
#include "store/engine.h"

namespace c10dd::core {

struct DirectoryRead {
  std::unique_ptr<Directory> directory;
  /// The reason for a new incarnation of the directory: the state was restored from an older copy,
  /// or rows were lost. Empty if neither happened.
  std::string rolled_back;
};

/// A loss that an operator has accepted.
struct AcceptedLoss {
  std::string why;  ///< empty: there is none
  /// Jobs that are listed in the engine, but have no name in the directory: they are to be erased.
  std::vector<JobNumber> nameless = {};
};

/// Returns the jobs that a shared engine lists, but whose names were lost. What a crash leaves in
/// the middle of a retirement has a mark, and a job is listed after its name is durable.
Result<std::vector<JobNumber>> nameless_jobs(store::Engine& engine,
                                             const Directory::Limits& limits);

/// Claims and reads the directory, and makes its incarnation durable. `random` becomes the
/// incarnation if a new one is needed. After a `loss`, one is needed. Fails with the error of the
/// engine, with `malformed` if a row is damaged, and with `unavailable` if the engine did not
/// commit the incarnation.
Result<DirectoryRead> read_directory(store::Engine& engine, const Directory::Limits& limits,
                                     std::uint64_t random, TimePoint now,
                                     const AcceptedLoss& loss = {});

/// Commits a change of the directory. See DirectoryHost::DirectoryBatch::erased for what becomes of
/// jobs that are erased. If the outcome is `lost`, the caller must close the engine.
DirectoryHost::Written write_directory(store::Engine& engine,
                                       const DirectoryHost::DirectoryBatch& change);

}  // namespace c10dd::core
