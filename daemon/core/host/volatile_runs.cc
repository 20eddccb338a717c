// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/host/volatile_runs.h"

#include "protocol/format.h"

namespace c10dd::core {

Result<JobNumber> VolatileRuns::open(const std::string& job, const std::string& run) {
  if (const auto known = find(job, run)) return *known;
  if (Result<void> good = check_run_name(job, run); !good) return good.error();
  const std::size_t runs = live_.size() + ended_.size();
  if (runs >= settings_.runs) {
    return failure(Code::quota_exceeded,
                   "too many runs that live in memory: {} with this one, limit {}; end some, or "
                   "lease endpoints with a run",
                   runs + 1, settings_.runs);
  }
  live_[{job, run}] = next_;
  return next_++;
}

std::optional<JobNumber> VolatileRuns::find(const std::string& job, const std::string& run) const {
  const auto it = live_.find({job, run});
  if (it == live_.end()) return std::nullopt;
  return it->second;
}

std::optional<JobNumber> VolatileRuns::end(const std::string& job, const std::string& run,
                                           TimePoint now) {
  auto node = live_.extract({job, run});
  if (node.empty()) return std::nullopt;
  const JobNumber number = node.mapped();
  ended_.emplace(number, std::move(node.key()));
  retirements_.set(number, now + settings_.grace);
  return number;
}

std::vector<Directory::NamedRun> VolatileRuns::tick(TimePoint now) {
  std::vector<Directory::NamedRun> over;
  while (const auto number = retirements_.take_due(now)) {
    auto node = ended_.extract(*number);
    over.push_back({std::move(node.mapped().first), std::move(node.mapped().second), *number});
  }
  return over;
}

std::vector<Directory::NamedRun> VolatileRuns::live(const std::string& job) const {
  std::vector<Directory::NamedRun> entries;
  for (auto it = live_.lower_bound({job, {}}); it != live_.end() && it->first.first == job; ++it) {
    entries.push_back({it->first.first, it->first.second, it->second});
  }
  return entries;
}

}  // namespace c10dd::core
