// SPDX-License-Identifier: Apache-2.0
// Lets a draining daemon end when two consecutive checks of all hosts have found no unfinished
// work. One check is not enough: a loop may have read a request before the loop was told to drain,
// and the request may still be on its way to the host of another loop. If that host is checked
// before the request arrives, the check finds no work. The request was posted before the first
// check ended, so the request arrives before the second check.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "daemon/core/planted.h"

namespace c10dd::core {

class Drain {
 public:
  /// Records a check: the values of JobHost::unfinished() of all hosts. All values must be read
  /// after JobHost::drain() and after the previous check. Returns true if the daemon may end.
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
