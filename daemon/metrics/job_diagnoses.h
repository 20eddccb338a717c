// SPDX-License-Identifier: Apache-2.0
// The series of jobs that do not go on: one for each, with the sentence as a label. Guarantees at
// most limits::kJobsInMetrics series; further jobs have none. Not thread-safe: Metrics calls this
// class under a lock.
#pragma once

#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "daemon/core/host/job_slot.h"
#include "daemon/metrics/metric_family.h"

namespace c10dd::daemon {

/// Returns for each job its worst run, if that is not running: a stuck run is worse than a waiting
/// one, and then the run with the older diagnosis is worse. Jobs whose names print alike count as
/// one job. Returns the worst jobs, and at most `most` of them.
std::vector<const core::JobReport*> worst_runs(std::span<const core::JobReport> runs,
                                               std::size_t most);

/// Takes the label "sentence" from the series of jobs that do not go on.
void leave_sentences_out(std::vector<prometheus::MetricFamily>& families);

class JobDiagnoses {
 public:
  explicit JobDiagnoses(prometheus::Registry& registry) : family_(registry, metric::kDiagnosis) {}

  /// Sets the series of all jobs, and removes all other series. now: the Unix time.
  void set(std::span<const core::JobReport> runs, Duration now);

 private:
  using Labels = std::tuple<std::string, Diagnosis::State, Diagnosis::Kind, std::string>;

  Family<Gauge> family_;
  std::map<Labels, Gauge*> series_;
};

}  // namespace c10dd::daemon
