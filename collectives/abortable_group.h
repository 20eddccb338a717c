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

/// Lets a group explain a failed collective with facts that its backend does not have.
struct FailureSources {
  /// After a collective has lost a peer, it waits this long for a call of abort() with the reason.
  /// Without that call, the collective fails with code aborted and a text that ends with "not
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
