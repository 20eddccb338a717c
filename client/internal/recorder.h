// SPDX-License-Identifier: Apache-2.0
// Counts collectives of this process, as cumulative totals: a lost or repeated report changes
// nothing. Thread-safe; a sample costs a short lock and no allocation after the first of its kind.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <tuple>
#include <vector>

#include "client/client.h"
#include "protocol/ops.h"

namespace c10dd::client {

class Recorder {
 public:
  /// Beyond limits::kSeriesPerReport kinds the rest is counted together, as "other".
  void record(const CollectiveSample& sample);

  std::vector<CollectiveCount> counts() const;

  /// Everything so far, under the next number.
  Report report();

  /// Whether something was recorded since the last report().
  bool changed() const;

 private:
  /// Group, collective and backend, as they stand in the totals.
  using Kind = std::tuple<std::string_view, std::string_view, std::string_view>;

  CollectiveTotals& totals_of(const CollectiveSample& sample);

  mutable std::mutex mutex_;
  std::map<Kind, std::unique_ptr<CollectiveTotals>> totals_;
  std::uint64_t number_ = 0;
  bool changed_ = false;
};

}  // namespace c10dd::client
