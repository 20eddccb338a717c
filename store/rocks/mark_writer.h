// SPDX-License-Identifier: Apache-2.0
// Keeps a high-water file behind the commits, on its own thread: a commit only notes its mark in
// memory. A mark is written when it changed, and not before the last one is 200 ms old.
#pragma once

#include <functional>
#include <memory>

#include "store/rocks/high_water.h"

namespace c10dd::store {

class MarkWriter {
 public:
  /// `complete` adds what is only worth asking for when a mark is written; on the thread.
  MarkWriter(HighWaterFile file, std::function<void(HighWaterMark&)> complete);

  /// Stops and writes no more: what was on disk stays true.
  ~MarkWriter();

  /// The caller says that the state has durably reached this. Fails when an earlier mark could
  /// not be written: then nothing guards the state any more.
  Result<void> note(const HighWaterMark& mark);

  /// Thread-safe.
  HighWaterMark noted() const;

  /// Stops and writes a last mark.
  Result<void> close(const HighWaterMark& mark);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace c10dd::store
