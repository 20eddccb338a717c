// SPDX-License-Identifier: Apache-2.0
// Reads the directory of jobs from an engine in steps, between which the engine can serve jobs, and
// other daemons can change the directory: the changes since the first step are applied at the end.
// So the result is the directory of one moment, the last one.
// Used on the thread that uses the engine; each step blocks until the engine has replied.
#pragma once

#include <memory>
#include <optional>

#include "daemon/core/directory/directory.h"
#include "store/engine.h"
#include "store/row_map.h"

namespace c10dd::core {

/// What a reading has found.
struct DirectoryNews {
  /// The whole directory. Null: only the changes were read.
  std::unique_ptr<Directory> whole = nullptr;
  Rows changes = {};
  Revision revision = 0;  ///< of the directory now
};

class DirectoryReading {
 public:
  /// How many rows a step reads at most.
  static constexpr std::size_t kPieceRows = 1024;

  /// Reads the whole directory.
  explicit DirectoryReading(const Directory::Limits& limits) : limits_(limits) {}
  /// Reads the changes above `known`, or the whole directory if the engine does not have them all;
  /// at most `piece_rows` rows in a step.
  DirectoryReading(const Directory::Limits& limits, Revision known,
                   std::size_t piece_rows = kPieceRows)
      : limits_(limits), known_(known), piece_rows_(piece_rows) {}

  /// Makes the next step. Returns what was read, or nothing if another step follows. Begins again
  /// if the engine has not kept the changes since the first step. Fails with the error of the
  /// engine, and with `malformed` if a row is damaged or missing.
  Result<std::optional<DirectoryNews>> step(store::Engine& engine);

  /// Returns how often the reading of the whole directory has begun.
  int readings() const { return readings_; }

 private:
  Result<std::optional<DirectoryNews>> follow(store::Engine& engine);
  Result<void> begin(store::Engine& engine);
  Result<std::optional<DirectoryNews>> finish(store::Engine& engine);

  const Directory::Limits limits_;
  std::optional<Revision> known_;
  const std::size_t piece_rows_ = kPieceRows;
  Revision first_ = 0;  ///< of the directory before the first row was read
  std::unique_ptr<store::RowReader> reader_;
  store::RowMap rows_;
  int readings_ = 0;
};

}  // namespace c10dd::core
