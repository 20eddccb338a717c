// SPDX-License-Identifier: Apache-2.0
// Assigns jobs to series, and keeps the sums of jobs that share series.
#include "daemon/metrics/job_metrics.h"

#include <algorithm>
#include <chrono>
#include <variant>

namespace c10dd::daemon {
namespace {

double number(std::uint64_t value) { return static_cast<double>(value); }

/// Returns the calls per bucket of kCollectiveBounds. Those of an older client that took less than
/// the first coarse bound count as just below that bound.
std::vector<double> durations_of(const CollectiveTotals& totals) {
  C10DD_ASSERT(totals.buckets.size() == metric::kCoarseBuckets);
  std::vector<double> counts(metric::kCollectiveBuckets);
  std::copy(totals.buckets.begin(), totals.buckets.end(),
            counts.begin() + metric::kFineBounds.size());
  for (std::size_t i = 0; i < totals.fine_buckets.size(); ++i) {
    counts[i] = number(totals.fine_buckets[i]);
    counts[metric::kFineBounds.size()] -= counts[i];
  }
  return counts;
}

}  // namespace

JobMetrics::JobMetrics(prometheus::Registry& registry)
    : keys_(registry, metric::kKeys),
      bytes_(registry, metric::kValueBytes),
      waiters_(registry, metric::kWaiters),
      sessions_(registry, metric::kSessions),
      barriers_(registry, metric::kBarriersPending),
      members_(registry, metric::kMembers),
      missing_(registry, metric::kMembersMissing),
      generations_(registry, metric::kGenerations),
      spreads_(registry, metric::kBarrierSpread, bounds_of(metric::kWaitBounds)),
      durations_(registry, metric::kCollectiveDuration, bounds_of(metric::kCollectiveBounds)),
      queues_(registry, metric::kCollectiveQueue, bounds_of(metric::kCollectiveBounds)),
      in_flight_(registry, metric::kCollectivesInFlight),
      payloads_(registry, metric::kCollectivePayload),
      buses_(registry, metric::kCollectiveBus),
      failures_(registry, metric::kCollectiveFailures) {}

/// Returns the series with this label value. Beyond the limit, a new label value becomes kOther.
JobMetrics::Series& JobMetrics::series_of(std::string label) {
  const std::size_t named = series_.size() - series_.count(kOther);
  if (!series_.contains(label) && named >= limits::kJobsInMetrics) label = kOther;
  const auto [at, is_new] = series_.try_emplace(label);
  Series& series = at->second;
  if (is_new) {
    series.label = label;
    series.keys = keys_.with({label});
    series.bytes = bytes_.with({label});
    series.waiters = waiters_.with({label});
    series.sessions = sessions_.with({label});
    series.barriers = barriers_.with({label});
    series.members = members_.with({label});
    series.missing = missing_.with({label});
    series.in_flight = in_flight_.with({label});
    series.formed = generations_.with({label, "formed"});
    series.ended = generations_.with({label, "ended"});
  }
  return series;
}

JobMetrics::Job& JobMetrics::job(const std::string& train_job) {
  const auto found = jobs_.find(train_job);
  if (found != jobs_.end()) return found->second;
  Series& series = series_of(printable(train_job, limits::kNameBytes));
  ++series.jobs;
  return jobs_.emplace(train_job, Job{&series, {}, 0}).first->second;
}

/// Updates the sums of the job's series: the new values of the job replace its previous values.
void JobMetrics::replace(Job& job, const core::JobStats& stats) {
  Series& series = *job.series;
  const auto update = [&](std::size_t core::JobStats::*field, Gauge& gauge) {
    series.sum.*field += stats.*field - job.last.*field;  // unsigned: the wrap-arounds cancel out
    gauge.Set(number(series.sum.*field));
  };
  update(&core::JobStats::keys, *series.keys);
  update(&core::JobStats::bytes, *series.bytes);
  update(&core::JobStats::waiters, *series.waiters);
  update(&core::JobStats::sessions, *series.sessions);
  update(&core::JobStats::barriers_pending, *series.barriers);
  update(&core::JobStats::members, *series.members);
  update(&core::JobStats::members_missing, *series.missing);
  update(&core::JobStats::collectives_in_flight, *series.in_flight);
  job.last = stats;
}

void JobMetrics::add(const std::string& train_job) { ++job(train_job).runs; }

void JobMetrics::stats(const std::string& train_job, const core::JobStats& stats) {
  const auto found = jobs_.find(train_job);
  if (found != jobs_.end()) replace(found->second, stats);
}

/// Returns the series of a collective. Bounds the number of series, because clients choose the
/// names.
JobMetrics::Collective& JobMetrics::collective(Series& series, const CollectiveTotals& of) {
  std::tuple key(of.process_group, of.collective, of.backend);
  const auto found = series.collectives.find(key);
  if (found != series.collectives.end()) return found->second;
  if (series.collectives.size() >= limits::kSeriesPerReport) {
    key = {std::string(kOther), std::string(kOther), std::string(kOther)};
  }
  const auto [at, is_new] = series.collectives.try_emplace(key);
  if (is_new) {
    const auto& [process_group, collective, backend] = key;
    const LabelValues labels = {series.label, process_group, collective, backend};
    at->second = {durations_.with(labels), queues_.with(labels), payloads_.with(labels),
                  buses_.with(labels), failures_.with(labels)};
  }
  return at->second;
}

void JobMetrics::event(const std::string& train_job, const core::Event& event) {
  const auto found = jobs_.find(train_job);
  if (found == jobs_.end()) return;
  Series& series = *found->second.series;
  if (const auto* barrier = std::get_if<core::BarrierReleased>(&event)) {
    released(series, barrier->spread);
  } else if (std::holds_alternative<core::GenerationFormed>(event)) {
    series.formed->Increment();
  } else if (std::holds_alternative<core::GenerationEnded>(event)) {
    series.ended->Increment();
  } else if (const auto* report = std::get_if<core::CollectivesMeasured>(&event)) {
    measured(series, report->differences);
  }
}

void JobMetrics::released(Series& series, Duration spread) {
  if (series.spread == nullptr) series.spread = spreads_.with({series.label});
  series.spread->Observe(std::chrono::duration<double>(spread).count());
}

void JobMetrics::measured(Series& series, const std::vector<CollectiveTotals>& differences) {
  for (const CollectiveTotals& difference : differences) {
    const Collective& to = collective(series, difference);
    to.duration->ObserveMultiple(durations_of(difference), number(difference.duration_ns) / 1e9);
    if (!difference.queue_buckets.empty()) {
      to.queue->ObserveMultiple({difference.queue_buckets.begin(), difference.queue_buckets.end()},
                                number(difference.queue_ns) / 1e9);
    }
    to.payload->Increment(number(difference.payload_bytes));
    to.bus->Increment(number(difference.bus_bytes));
    to.failures->Increment(number(difference.failures));
  }
}

void JobMetrics::remove(const std::string& train_job) {
  const auto found = jobs_.find(train_job);
  if (found == jobs_.end()) return;
  if (found->second.runs > 1) {
    --found->second.runs;
    return;
  }
  replace(found->second, {});
  Series& series = *found->second.series;
  jobs_.erase(found);
  if (--series.jobs > 0) return;  // other jobs share the series
  keys_.remove(series.keys);
  bytes_.remove(series.bytes);
  waiters_.remove(series.waiters);
  sessions_.remove(series.sessions);
  barriers_.remove(series.barriers);
  members_.remove(series.members);
  missing_.remove(series.missing);
  in_flight_.remove(series.in_flight);
  generations_.remove(series.formed);
  generations_.remove(series.ended);
  if (series.spread != nullptr) spreads_.remove(series.spread);
  for (const auto& [key, collective] : series.collectives) {
    durations_.remove(collective.duration);
    queues_.remove(collective.queue);
    payloads_.remove(collective.payload);
    buses_.remove(collective.bus);
    failures_.remove(collective.failures);
  }
  series_.erase(series_.find(series.label));
}

}  // namespace c10dd::daemon
