// SPDX-License-Identifier: Apache-2.0
// When a daemon that drains may end: after it has looked at all hosts twice, and found nothing
// unfinished. Once is not enough: a request that one loop read before it heard of the drain may
// still be on its way to the host of another loop, which had nothing to do when it was looked at.
// It was posted before the first loop said that it drains, so the second look comes after it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "daemon/core/planted.h"

namespace c10dd::core {

class Drain {
 public:
  /// unfinished: JobHost::unfinished() of each host, all asked after they were told to drain, and
  /// after the look before. True if the daemon may end.
  bool finished(const std::vector<std::size_t>& unfinished) {
    const bool none = std::all_of(unfinished.begin(), unfinished.end(),
                                  [](std::size_t count) { return count == 0; });
    looks_ = none ? looks_ + 1 : 0;
    return looks_ >= (planted(Planted::drain_looks_once) ? 1 : 2);
  }

 private:
  int looks_ = 0;  ///< in a row that found nothing
};

}  // namespace c10dd::core
