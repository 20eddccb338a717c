// SPDX-License-Identifier: Apache-2.0
// AbortableGroup: a ProcessGroup, opened by the members of a generation, that can be aborted with a
// failure that names the lost ranks. After such a group has lost a peer, it waits a moment for the
// daemon's reason before it fails.
#pragma once

#include <functional>
#include <memory>

#include "collectives/process_group.h"
#include "protocol/error.h"

namespace c10dd::collectives {

/// A process group that can be aborted with any failure.
class AbortableGroup : public ProcessGroup {
 public:
  using ProcessGroup::abort;

  /// Like abort(text), but pending and later work fails with the code, text and ranks of `reason`.
  virtual void abort(Failure reason) = 0;
};

/// Gives a group more facts about a failed collective than its backend knows.
struct FailureSources {
  /// If a collective loses a peer, it waits this long for abort() to be called with the reason. If
  /// abort() is not called, the collective fails with code aborted, and its text ends with "not
  /// confirmed yet". If 0, the collective does not wait and fails with the failure of the backend.
  Duration reason_patience{0};
  /// Adds to the failure what the other ranks are doing. Called on the group's worker thread; may
  /// block for a moment.
  std::function<void(const CollectiveCall&, Failure&)> explain = {};
};

/// Like ProcessGroup::open().
std::shared_ptr<AbortableGroup> open_group(std::shared_ptr<Bootstrap> bootstrap, World world,
                                           GroupOptions options, FailureSources sources = {});

}  // namespace c10dd::collectives
