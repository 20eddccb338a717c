// SPDX-License-Identifier: Apache-2.0
// Decides when a draining daemon may end: when two checks of all hosts in a row have found nothing
// unfinished. One check is not enough: a request that one loop read before it was notified of the
// drain may still be on its way to the host of another loop, which had nothing to do when it was
// checked. That request was posted before the first loop confirmed the drain, so the second check
// comes after it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "daemon/core/planted.h"

namespace c10dd::core {

class Drain {
 public:
  /// Takes a check: JobHost::unfinished() of each host, all read after JobHost::drain() and after
  /// the check before. Returns true if the daemon may end.
  bool finished(const std::vector<std::size_t>& unfinished) {
    const bool none = std::all_of(unfinished.begin(), unfinished.end(),
                                  [](std::size_t count) { return count == 0; });
    looks_ = none ? looks_ + 1 : 0;
    return looks_ >= (planted(Planted::drain_looks_once) ? 1 : 2);
  }

 private:
  int looks_ = 0;  ///< checks in a row that found nothing
};

}  // namespace c10dd::core
