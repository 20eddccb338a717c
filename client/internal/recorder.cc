// SPDX-License-Identifier: Apache-2.0
// Keeps totals for each kind of collective. The buckets are those of protocol/metric_catalog.h.
#include "client/internal/recorder.h"

#include <algorithm>

#include "protocol/limits.h"
#include "protocol/metric_catalog.h"

namespace c10dd::client {

CollectiveTotals& Recorder::totals_of(const CollectiveSample& sample) {
  Kind kind(sample.process_group, sample.collective, sample.backend);
  if (const auto it = totals_.find(kind); it != totals_.end()) return *it->second;
  if (totals_.size() + 1 >= limits::kSeriesPerReport) {  // all further kinds count as "other"
    kind = {"other", "other", "other"};
    if (const auto it = totals_.find(kind); it != totals_.end()) return *it->second;
  }
  auto totals = std::make_unique<CollectiveTotals>();
  std::tie(totals->process_group, totals->collective, totals->backend) = kind;
  totals->buckets.resize(metric::kCollectiveBuckets);
  // The key refers to strings of the totals, because the sample may be destroyed before the key.
  const Kind own(totals->process_group, totals->collective, totals->backend);
  return *totals_.emplace(own, std::move(totals)).first->second;
}

void Recorder::record(const CollectiveSample& sample) {
  const Duration duration = std::max<Duration>(sample.duration, Duration::zero());
  const double seconds = std::chrono::duration<double>(duration).count();
  const auto& bounds = metric::kCollectiveBounds;
  const auto bucket = static_cast<std::size_t>(
      std::lower_bound(bounds.begin(), bounds.end(), seconds) - bounds.begin());
  const std::lock_guard lock(mutex_);
  CollectiveTotals& totals = totals_of(sample);
  changed_ = true;
  if (!sample.succeeded) {
    ++totals.failures;
    return;
  }
  ++totals.count;
  ++totals.buckets[bucket];
  totals.payload_bytes += sample.payload_bytes;
  totals.bus_bytes += sample.bus_bytes;
  totals.duration_ns += static_cast<std::uint64_t>(duration.count());
}

std::vector<CollectiveCount> Recorder::counts() const {
  const std::lock_guard lock(mutex_);
  std::vector<CollectiveCount> counts;
  counts.reserve(totals_.size());
  for (const auto& [kind, totals] : totals_) {
    counts.push_back({totals->process_group, totals->collective, totals->backend, totals->count,
                      totals->failures, totals->payload_bytes});
  }
  return counts;
}

Report Recorder::report() {
  const std::lock_guard lock(mutex_);
  Report report;
  report.number = ++number_;
  for (const auto& [kind, totals] : totals_) report.collectives.push_back(*totals);
  changed_ = false;
  return report;
}

bool Recorder::changed() const {
  const std::lock_guard lock(mutex_);
  return changed_;
}

}  // namespace c10dd::client
