// SPDX-License-Identifier: Apache-2.0
// Writes the high-water marks of commits to the file, on a thread of its own: a commit only notes
// its mark in memory. The file follows by about 200 ms: a changed mark is written when the one
// before is at least that old.
#pragma once

#include <functional>
#include <memory>

#include "store/rocks/high_water.h"

namespace c10dd::store {

/// Owns a high-water file and the thread that writes it.
class MarkWriter {
 public:
  /// `complete` adds to a mark what is too expensive to get at each commit. It is called before a
  /// mark is written, on the writer's thread, and by close().
  MarkWriter(HighWaterFile file, std::function<void(HighWaterMark&)> complete);

  /// Stops the thread and does not write the newest mark: the mark on disk stays true.
  ~MarkWriter();

  /// Notes that the state has durably reached this mark. Fails if an earlier mark could not be
  /// written: then the file does not protect the state any more. Thread-safe.
  Result<void> note(const HighWaterMark& mark);

  /// Returns the newest mark that was noted. Thread-safe.
  HighWaterMark noted() const;

  /// Stops the thread, then writes a last mark. Fails if an earlier mark could not be written.
  Result<void> close(const HighWaterMark& mark);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace c10dd::store
