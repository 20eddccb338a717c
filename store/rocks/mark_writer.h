// SPDX-License-Identifier: Apache-2.0
// Writes the marks of commits to the high-water file, on a separate thread. A commit only stores
// its mark in memory. The file may be behind by `pause`, the least time between two writes.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "store/rocks/high_water.h"

namespace c10dd::store {

/// Owns a high-water file and the thread that writes it.
class MarkWriter {
 public:
  /// `complete` sets the fields of a mark that are too expensive to get at each commit. The thread
  /// and close() call `complete` before they write a mark. `pause` is the least time between two
  /// writes.
  MarkWriter(HighWaterFile file, std::function<void(HighWaterMark&)> complete,
             std::chrono::milliseconds pause = std::chrono::milliseconds(200));

  /// Stops the thread without writing the newest mark. The older mark on disk remains valid.
  ~MarkWriter();

  /// Notes that the state has durably reached this mark. Fails if an earlier mark could not be
  /// written: the file then no longer protects the state. Thread-safe.
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
