// SPDX-License-Identifier: Apache-2.0
// Keeps totals for each kind of collective. The buckets are those of protocol/metric_catalog.h.
#include "client/internal/recorder.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "protocol/limits.h"
#include "protocol/metric_catalog.h"

namespace c10dd::client {

namespace {

template <class Bounds>
std::size_t bucket_of(const Bounds& bounds, std::chrono::nanoseconds duration) {
  const double seconds = std::chrono::duration<double>(duration).count();
  return static_cast<std::size_t>(std::lower_bound(bounds.begin(), bounds.end(), seconds) -
                                  bounds.begin());
}

}  // namespace

/// The totals of one kind.
class Recorder::Series final : public CollectiveSeries {
 public:
  explicit Series(const Kind& kind) {
    std::tie(totals_.process_group, totals_.collective, totals_.backend) = kind;
    totals_.buckets.resize(metric::kCoarseBuckets);
    totals_.fine_buckets.resize(metric::kFineBounds.size());
    totals_.queue_buckets.resize(metric::kCollectiveBuckets);
  }

  Kind kind() const { return {totals_.process_group, totals_.collective, totals_.backend}; }

  void record(std::chrono::nanoseconds duration, std::chrono::nanoseconds queued,
              std::uint64_t payload_bytes, std::uint64_t bus_bytes,
              bool succeeded) noexcept override {
    duration = std::max(duration, std::chrono::nanoseconds::zero());
    queued = std::max(queued, std::chrono::nanoseconds::zero());
    const std::size_t bucket = bucket_of(metric::kCollectiveBounds, duration);
    const std::size_t queue_bucket = bucket_of(metric::kCollectiveBounds, queued);
    constexpr std::size_t kFine = metric::kFineBounds.size();
    const std::lock_guard lock(mutex_);
    changed_ = true;
    if (!succeeded) {
      ++totals_.failures;
      return;
    }
    ++totals_.count;
    ++totals_.buckets[bucket < kFine ? 0 : bucket - kFine];
    if (bucket < kFine) ++totals_.fine_buckets[bucket];
    ++totals_.queue_buckets[queue_bucket];
    totals_.payload_bytes += payload_bytes;
    totals_.bus_bytes += bus_bytes;
    totals_.duration_ns += static_cast<std::uint64_t>(duration.count());
    totals_.queue_ns += static_cast<std::uint64_t>(queued.count());
  }

  void add_in_flight(std::int64_t change) noexcept override {
    in_flight_.fetch_add(change, std::memory_order_relaxed);
  }

  /// Returns the totals. If `reported` is true, changed() is false until the totals change.
  CollectiveTotals totals(bool reported) {
    const std::lock_guard lock(mutex_);
    totals_.in_flight = in_flight();
    if (reported) changed_ = false;
    if (reported) reported_in_flight_ = totals_.in_flight;
    return totals_;
  }

  bool changed() {
    const std::lock_guard lock(mutex_);
    return changed_ || reported_in_flight_ != in_flight();
  }

 private:
  std::uint64_t in_flight() const {
    const std::int64_t now = in_flight_.load(std::memory_order_relaxed);
    return static_cast<std::uint64_t>(std::max(now, std::int64_t{0}));
  }

  std::mutex mutex_;
  CollectiveTotals totals_;
  bool changed_ = false;
  std::uint64_t reported_in_flight_ = 0;
  std::atomic<std::int64_t> in_flight_ = 0;
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
      ->record(sample.duration, sample.queued, sample.payload_bytes, sample.bus_bytes,
               sample.succeeded);
}

std::vector<CollectiveTotals> Recorder::totals(bool reported) const {
  std::vector<CollectiveTotals> all;
  for (const auto& [kind, series] : series_) {
    CollectiveTotals one = series->totals(reported);
    if (one.count + one.failures + one.in_flight > 0) all.push_back(std::move(one));
  }
  return all;
}

std::vector<CollectiveCount> Recorder::counts() const {
  const std::lock_guard lock(mutex_);
  std::vector<CollectiveCount> counts;
  for (CollectiveTotals& one : totals(false)) {
    counts.push_back({std::move(one.process_group), std::move(one.collective),
                      std::move(one.backend), one.count, one.failures, one.payload_bytes});
  }
  return counts;
}

Report Recorder::report() {
  const std::lock_guard lock(mutex_);
  return {++number_, totals(true)};
}

bool Recorder::changed() const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(series_, [](const auto& entry) { return entry.second->changed(); });
}

}  // namespace c10dd::client
