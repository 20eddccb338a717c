// SPDX-License-Identifier: Apache-2.0
// Selects the worst run of each job, and keeps its series.
#include "daemon/metrics/job_diagnoses.h"

#include <algorithm>

#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd::daemon {
namespace {

bool is_worse(const core::JobReport* one, const core::JobReport* other) {
  return std::tuple(one->diagnosis.state, one->diagnosed) >
         std::tuple(other->diagnosis.state, other->diagnosed);
}

}  // namespace

std::vector<const core::JobReport*> worst_runs(std::span<const core::JobReport> runs,
                                               std::size_t most) {
  std::map<std::string, const core::JobReport*> by_name;
  for (const core::JobReport& run : runs) {
    if (run.diagnosis.state == Diagnosis::State::running) continue;
    const core::JobReport*& worst = by_name[printable_name(run.name)];
    if (worst == nullptr || is_worse(&run, worst)) worst = &run;
  }
  std::vector<const core::JobReport*> jobs;
  for (const auto& [name, worst] : by_name) jobs.push_back(worst);
  std::ranges::stable_sort(jobs, is_worse);
  if (jobs.size() > most) jobs.resize(most);
  return jobs;
}

void leave_sentences_out(std::vector<prometheus::MetricFamily>& families) {
  for (prometheus::MetricFamily& family : families) {
    if (family.name != metric::kDiagnosis.name) continue;
    for (prometheus::ClientMetric& series : family.metric) {
      std::erase_if(series.label, [](const auto& label) { return label.name == "sentence"; });
    }
  }
}

void JobDiagnoses::set(std::span<const core::JobReport> runs, Duration now) {
  std::map<Labels, const core::JobReport*> wanted;
  for (const core::JobReport* run : worst_runs(runs, limits::kJobsInMetrics)) {
    const Diagnosis& is = run->diagnosis;
    wanted.emplace(Labels{printable_name(run->name), is.state, is.kind, is.sentence}, run);
  }
  std::erase_if(series_, [&](const auto& series) {
    if (wanted.contains(series.first)) return false;
    family_.remove(series.second);
    return true;
  });
  for (const auto& [labels, run] : wanted) {
    Gauge*& series = series_[labels];
    const auto& [job, state, kind, sentence] = labels;
    if (series == nullptr) series = family_.with({job, name_of(state), name_of(kind), sentence});
    series->Set(seconds_of(now - run->diagnosed));
  }
}

}  // namespace c10dd::daemon
