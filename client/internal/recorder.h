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
  /// Returns what counts the collectives of one kind. A report has at most limits::kSeriesPerReport
  /// kinds. If there are more, the further ones are counted together as one kind, "other".
  std::shared_ptr<CollectiveSeries> series(std::string_view process_group,
                                           std::string_view collective, std::string_view backend);

  /// Counts one collective.
  void record(const CollectiveSample& sample);

  std::vector<CollectiveCount> counts() const;

  /// Returns all totals so far, with the next report number.
  Report report();

  /// Returns whether something was recorded since the last report().
  bool changed() const;

 private:
  /// Process group, collective and backend, as views of the strings in CollectiveTotals.
  using Kind = std::tuple<std::string_view, std::string_view, std::string_view>;

  class Series;
  /// Returns the totals of each kind that has counted something, or has something in flight.
  std::vector<CollectiveTotals> totals(bool reported) const;

  mutable std::mutex mutex_;
  std::map<Kind, std::shared_ptr<Series>> series_;
  std::uint64_t number_ = 0;
};

}  // namespace c10dd::client
