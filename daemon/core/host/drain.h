// SPDX-License-Identifier: Apache-2.0
// Decides when a draining daemon may end. Two consecutive checks must first find no unfinished work
// in any host. One check is not enough. A loop may have read a request before the loop was told to
// drain, and may have posted the request to the host of another loop. If the check reads that host
// before the request arrives, the check misses the request. The second check cannot miss it: the
// request was posted before the first check ended, so it arrives before the second check.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "daemon/core/planted.h"

namespace c10dd::core {

class Drain {
 public:
  /// Records a check of all hosts. `unfinished` has the result of JobTable::unfinished() for each
  /// host. All results must be read after JobHost::drain() and after the previous check. Returns
  /// true if the daemon may end.
  bool finished(const std::vector<std::size_t>& unfinished) {
    const bool none = std::all_of(unfinished.begin(), unfinished.end(),
                                  [](std::size_t count) { return count == 0; });
    looks_ = none ? looks_ + 1 : 0;
    return looks_ >= (planted(Planted::drain_looks_once) ? 1 : 2);
  }

 private:
  int looks_ = 0;  ///< consecutive checks that found no unfinished work
};

}  // namespace c10dd::core
