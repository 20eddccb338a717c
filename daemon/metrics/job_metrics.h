// SPDX-License-Identifier: Apache-2.0
// The metric series of training jobs. The number of series is bounded. Jobs share series if
// printable() converts their names to the same text. All jobs beyond limits::kJobsInMetrics share
// one set of series. Shared series hold the sums over their jobs. Series are removed with the last
// job that uses them. Not thread-safe: Metrics calls this class under a lock.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "daemon/core/effects.h"
#include "daemon/core/job/job_stats.h"
#include "daemon/metrics/metric_family.h"

namespace c10dd::daemon {

class JobMetrics {
 public:
  explicit JobMetrics(prometheus::Registry& registry);

  /// Notes that a run of the job was added. The first run creates the job's series.
  void add(const std::string& train_job);
  /// Sets the gauges of a job. Ignored if the job has no series.
  void stats(const std::string& train_job, const core::JobStats& stats);
  /// Counts released barriers, generations and collectives of a job. Ignores
  /// the event if the job has no series, for example if an idle job loses a
  /// member.
  void event(const std::string& train_job, const core::Event& event);
  /// Notes that a run of the job was removed. If no run is left, removes the job's series.
  void remove(const std::string& train_job);

 private:
  struct Collective {
    Histogram* duration;
    Histogram* queue;
    Counter* payload;
    Counter* bus;
    Counter* failures;
  };
  /// The series that have the same value of the label train_job.
  struct Series {
    std::string label;
    std::size_t jobs = 0;
    core::JobStats sum;
    Gauge* keys;
    Gauge* bytes;
    Gauge* waiters;
    Gauge* sessions;
    Gauge* barriers;
    Gauge* members;
    Gauge* missing;
    Gauge* in_flight;
    Counter* formed;
    Counter* ended;
    Histogram* spread = nullptr;  ///< null until a barrier is released; stays null in most jobs
    std::map<std::tuple<std::string, std::string, std::string>, Collective> collectives;
  };
  struct Job {
    Series* series;
    core::JobStats last;  ///< its part of series->sum
    std::size_t runs = 0;
  };

  Job& job(const std::string& train_job);
  Series& series_of(std::string label);
  Collective& collective(Series& series, const CollectiveTotals& of);
  void released(Series& series, Duration spread);
  void measured(Series& series, const std::vector<CollectiveTotals>& differences);
  void replace(Job& job, const core::JobStats& stats);

  Family<Gauge> keys_;
  Family<Gauge> bytes_;
  Family<Gauge> waiters_;
  Family<Gauge> sessions_;
  Family<Gauge> barriers_;
  Family<Gauge> members_;
  Family<Gauge> missing_;
  Family<Counter> generations_;
  Family<Histogram> spreads_;
  Family<Histogram> durations_;
  Family<Histogram> queues_;
  Family<Gauge> in_flight_;
  Family<Counter> payloads_;
  Family<Counter> buses_;
  Family<Counter> failures_;
  std::map<std::string, Job> jobs_;
  std::map<std::string, Series, std::less<>> series_;  // by label
};

}  // namespace c10dd::daemon
