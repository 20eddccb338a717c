// SPDX-License-Identifier: Apache-2.0
// How many items each queue of one job had that nobody had claimed, by revision.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "tests/sim/records.h"

namespace c10dd::sim {

class QueueLog {
 public:
  explicit QueueLog(const std::vector<Step>& log);

  std::size_t free(const Bytes& queue, Revision revision) const;

 private:
  std::map<Bytes, std::vector<std::pair<Revision, std::size_t>>> lengths_;
};

}  // namespace c10dd::sim
