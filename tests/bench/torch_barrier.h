// SPDX-License-Identifier: Apache-2.0
// PyTorch's barrier over its own TCPStore: each rank adds, the last one sets a key, all wait for
// that. The ranks are threads of one Python, which lets go of its lock in the store's calls.
#pragma once

#include <string>

#include "tests/bench/histogram.h"

namespace c10dd::bench {

struct TorchBarriers {
  Histogram took;       ///< first arrival to last release of each
  double total = 0;     ///< seconds
  std::string skipped;  ///< why there are none
};

/// So many ranks meet for so long.
TorchBarriers meet_in_torch(unsigned ranks, double seconds);

}  // namespace c10dd::bench
