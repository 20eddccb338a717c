// SPDX-License-Identifier: Apache-2.0
// Above the jobs: which name has which number, and the incarnation of the state. Pure; its rows
// are those of job 0, under the same apply, effects and gate as any job.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "daemon/core/effects.h"

namespace c10dd::core {

class Directory {
 public:
  static constexpr JobNumber kNumber = 0;

  explicit Directory(Revision revision) : revision_(revision) {}

  Result<void> restore(const Row& row);

  /// Names the state on first use. `random` is the new incarnation if there is none yet.
  Effects resume(std::uint64_t random);

  std::optional<JobNumber> find(const std::string& job, const std::string& run) const;

  /// Gives a job its number for ever. The rows must be durable before the number is used.
  /// quota_exceeded at limits::kJobs; invalid_argument for a bad name.
  Result<JobNumber> open(const std::string& job, const std::string& run, Effects& out);

  std::uint64_t incarnation() const { return incarnation_; }
  Revision revision() const { return revision_; }

 private:
  std::uint64_t incarnation_ = 0;
  JobNumber next_ = 1;
  std::map<std::pair<std::string, std::string>, JobNumber> numbers_;
  Revision revision_;
};

}  // namespace c10dd::core
