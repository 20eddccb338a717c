// SPDX-License-Identifier: Apache-2.0
// Keeps totals for each kind of collective. The buckets are those of protocol/metric_catalog.h.
#include "client/internal/recorder.h"

#include <algorithm>

#include "protocol/limits.h"
#include "protocol/metric_catalog.h"

namespace c10dd::client {

/// The totals of one kind.
class Recorder::Series final : public CollectiveSeries {
 public:
  explicit Series(const Kind& kind) {
    std::tie(totals.process_group, totals.collective, totals.backend) = kind;
    totals.buckets.resize(metric::kCollectiveBuckets);
  }

  Kind kind() const { return {totals.process_group, totals.collective, totals.backend}; }

  void record(std::chrono::nanoseconds duration, std::uint64_t payload_bytes,
              std::uint64_t bus_bytes, bool succeeded) noexcept override {
    duration = std::max(duration, std::chrono::nanoseconds::zero());
    const double seconds = std::chrono::duration<double>(duration).count();
    const auto& bounds = metric::kCollectiveBounds;
    const auto bucket = static_cast<std::size_t>(
        std::lower_bound(bounds.begin(), bounds.end(), seconds) - bounds.begin());
    const std::lock_guard lock(mutex);
    changed = true;
    if (!succeeded) {
      ++totals.failures;
      return;
    }
    ++totals.count;
    ++totals.buckets[bucket];
    totals.payload_bytes += payload_bytes;
    totals.bus_bytes += bus_bytes;
    totals.duration_ns += static_cast<std::uint64_t>(duration.count());
  }

  std::mutex mutex;
  CollectiveTotals totals;
  bool changed = false;
};

std::shared_ptr<CollectiveSeries> Recorder::series(std::string_view process_group,
                                                   std::string_view collective,
                                                   std::string_view backend) {
  const std::lock_guard lock(mutex_);
  Kind kind(process_group, collective, backend);
  if (const auto it = series_.find(kind); it != series_.end()) return it->second;
  if (series_.size() + 1 >= limits::kSeriesPerReport) {  // all further kinds count as "other"
    kind = {"other", "other", "other"};
    if (const auto it = series_.find(kind); it != series_.end()) return it->second;
  }
  auto fresh = std::make_shared<Series>(kind);
  // The key refers to strings of the series, because the arguments may be destroyed before the key.
  return series_.emplace(fresh->kind(), fresh).first->second;
}

void Recorder::record(const CollectiveSample& sample) {
  series(sample.process_group, sample.collective, sample.backend)
      ->record(sample.duration, sample.payload_bytes, sample.bus_bytes, sample.succeeded);
}

template <class F>
void Recorder::each(F f) const {
  for (const auto& [kind, one] : series_) {
    const std::lock_guard lock(one->mutex);
    if (one->totals.count + one->totals.failures > 0) f(*one);
  }
}

std::vector<CollectiveCount> Recorder::counts() const {
  const std::lock_guard lock(mutex_);
  std::vector<CollectiveCount> counts;
  each([&](const Series& one) {
    const CollectiveTotals& totals = one.totals;
    counts.push_back({totals.process_group, totals.collective, totals.backend, totals.count,
                      totals.failures, totals.payload_bytes});
  });
  return counts;
}

Report Recorder::report() {
  const std::lock_guard lock(mutex_);
  Report report;
  report.number = ++number_;
  each([&](Series& one) {
    report.collectives.push_back(one.totals);
    one.changed = false;
  });
  return report;
}

bool Recorder::changed() const {
  const std::lock_guard lock(mutex_);
  bool any = false;
  each([&](const Series& one) { any = any || one.changed; });
  return any;
}

}  // namespace c10dd::client
