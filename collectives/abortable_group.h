// SPDX-License-Identifier: Apache-2.0
// What the group of a membership has beyond ProcessGroup: it is ended with a failure that names the
// lost, and when a peer is lost before anybody has said why, it waits a moment for that.
#pragma once

#include <functional>
#include <memory>

#include "collectives/process_group.h"
#include "protocol/error.h"

namespace c10dd::collectives {

class AbortableGroup : public ProcessGroup {
 public:
  using ProcessGroup::abort;

  /// As abort(reason), with what every call will throw.
  virtual void abort(Failure reason) = 0;
};

/// Who else knows why a collective has failed.
struct Informants {
  /// A collective that has lost a peer ends when the group has been aborted, or after so long as
  /// `aborted`, whose text says that nobody has confirmed it; 0: at once, with what the backend
  /// saw.
  Duration verdict_patience{0};
  /// Adds to the failure what the others are doing. May block for a moment.
  std::function<void(const CollectiveCall&, Failure&)> explain = {};
};

/// As ProcessGroup::open.
std::shared_ptr<AbortableGroup> open_group(std::shared_ptr<Bootstrap> bootstrap, World world,
                                           GroupOptions options, Informants informants = {});

}  // namespace c10dd::collectives
