// SPDX-License-Identifier: Apache-2.0
// The rows of a directory that daemons share, as they are durable. Tells which rows undo a change
// that was decided but not made, and which rows lead to a newer directory.
#pragma once

#include "daemon/core/directory/directory.h"
#include "store/row_map.h"

namespace c10dd::core {

class DirectoryMirror {
 public:
  /// Begins with a directory whose rows are all durable.
  void begin(const Directory& directory);
  /// Returns whether this row is durable.
  bool has(const Row& row) const;
  /// Takes a change that is durable.
  void apply(const Rows& change);
  /// Returns the rows that undo a change, which was not applied.
  Rows undo(const Rows& change) const;
  /// Returns the rows that make of this directory the newer one.
  Rows difference(const Directory& newer) const;

 private:
  store::RowMap rows_;
};

}  // namespace c10dd::core
