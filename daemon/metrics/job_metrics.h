// SPDX-License-Identifier: Apache-2.0
// The series of training jobs: bounded in number, gone with their job. Under the lock of Metrics.
// Jobs whose names print alike and jobs beyond limits::kJobsInMetrics share series, which then are
// sums.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "daemon/core/effects.h"
#include "daemon/core/job.h"
#include "daemon/metrics/metric_family.h"

namespace c10dd::daemon {

class JobMetrics {
 public:
  explicit JobMetrics(prometheus::Registry& registry);

  /// A run of the job is served; as many calls of remove() take the series away again.
  void add(const std::string& train_job);
  /// Of jobs that were added; others are ignored.
  void stats(const std::string& train_job, const core::JobStats& stats);
  /// What is counted by job: released barriers, generations, collectives. As stats(): of an idle
  /// job, whose series have ended, members may still be given up.
  void event(const std::string& train_job, const core::Event& event);
  void remove(const std::string& train_job);

 private:
  struct Collective {
    Histogram* duration;
    Counter* payload;
    Counter* bus;
    Counter* failures;
  };
  /// One value of the label train_job.
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
    Counter* formed;
    Counter* ended;
    Histogram* spread = nullptr;  ///< made by the first release: most jobs have no barriers
    std::map<std::tuple<std::string, std::string, std::string>, Collective> collectives;
  };
  struct Job {
    Series* series;
    core::JobStats last;
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
  Family<Counter> payloads_;
  Family<Counter> buses_;
  Family<Counter> failures_;
  std::map<std::string, Job> jobs_;
  std::map<std::string, Series, std::less<>> series_;  // by label
};

}  // namespace c10dd::daemon
