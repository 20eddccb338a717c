// SPDX-License-Identifier: Apache-2.0
// Other libraries that do an all_reduce of the same sizes with as many ranks: PyTorch's Gloo, and
// MPI. They take their turns after the ranks of c10dd, in processes of their own.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tests/bench/result.h"
#include "tests/bench/scenarios.h"

namespace c10dd::bench {

class AllReducePeers {
 public:
  /// Adds a series to `result` for each size of each peer of the options. `own`: index of the first
  /// of c10dd's series, one for each size, with which the peers are compared.
  AllReducePeers(const Options& options, unsigned ranks, std::vector<std::size_t> sizes,
                 std::size_t own, ScenarioResult& result);

  /// Runs each peer once, and adds a round to its series. A peer that is not installed loses its
  /// series, and `result.skipped` says why.
  void run_round(ScenarioResult& result);

  /// Adds the ratio of c10dd's median to that of each peer, for each size.
  void add_ratios(ScenarioResult& result) const;

 private:
  struct OtherLibrary {
    std::string name;
    std::string command;    // prints lines "BYTES NANOSECONDS"; exits with 77 if it cannot run
    std::size_t first = 0;  // index of its first series
    bool missing = false;
  };

  std::vector<std::size_t> sizes_;
  std::size_t own_;
  std::vector<OtherLibrary> libraries_;
};

}  // namespace c10dd::bench
