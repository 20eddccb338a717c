// SPDX-License-Identifier: Apache-2.0
// Counts the collectives of this process as cumulative totals, so that a lost or repeated report
// does no harm.
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

/// Owns the totals. Thread-safe.
class Recorder {
 public:
  /// Counts one collective. A report has at most limits::kSeriesPerReport kinds of collectives. If
  /// there are more kinds, the further ones are counted together as one kind, "other". Holds a lock
  /// briefly; allocates memory only for the first sample of a kind.
  void record(const CollectiveSample& sample);

  std::vector<CollectiveCount> counts() const;

  /// Returns all totals so far, with the next report number.
  Report report();

  /// Returns whether something was recorded since the last report().
  bool changed() const;

 private:
  /// Process group, collective and backend, as views of the strings in CollectiveTotals.
  using Kind = std::tuple<std::string_view, std::string_view, std::string_view>;

  CollectiveTotals& totals_of(const CollectiveSample& sample);

  mutable std::mutex mutex_;
  std::map<Kind, std::unique_ptr<CollectiveTotals>> totals_;
  std::uint64_t number_ = 0;
  bool changed_ = false;
};

}  // namespace c10dd::client
