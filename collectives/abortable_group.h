// SPDX-License-Identifier: Apache-2.0
// What the process group of a membership needs beyond ProcessGroup: it can be aborted with a
// failure that names the lost ranks, and after a lost peer it waits a moment for the daemon's
// reason.
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

  /// Like abort(text); pending and later work fails with `reason`.
  virtual void abort(Failure reason) = 0;
};

/// Sources of the reason why a collective has failed, besides the backend.
struct FailureSources {
  /// How long a collective that has lost a peer waits for the group to be aborted with the reason.
  /// After that it fails with code aborted, and the text ends with "not confirmed yet". With 0 it
  /// does not wait, and fails as the backend reports.
  Duration reason_patience{0};
  /// Adds to the failure what the other ranks are doing. Called on the group's worker thread; may
  /// block for a moment.
  std::function<void(const CollectiveCall&, Failure&)> explain = {};
};

/// Like ProcessGroup::open().
std::shared_ptr<AbortableGroup> open_group(std::shared_ptr<Bootstrap> bootstrap, World world,
                                           GroupOptions options, FailureSources sources = {});

}  // namespace c10dd::collectives
