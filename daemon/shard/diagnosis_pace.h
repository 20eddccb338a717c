// SPDX-License-Identifier: Apache-2.0
// Decides which diagnoses of jobs get a line in the log, so that a job that waits again and again
// for the same does not fill it. Pure: the caller passes the time.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "protocol/diagnosis.h"

namespace c10dd::daemon {

class DiagnosisPace {
 public:
  using Time = std::chrono::steady_clock::time_point;
  /// What is paced: the job, the run and the kind of the diagnosis.
  using Subject = std::tuple<std::string, std::string, Diagnosis::Kind>;

  /// For this long after a line, a diagnosis of the same subject and state is only counted.
  static constexpr Duration kFold = std::chrono::minutes(5);
  /// The most subjects that are remembered. A further one replaces the one whose last line is
  /// oldest, which then counts as new.
  static constexpr std::size_t kSubjects = 1'024;

  /// Decides about the line of a diagnosis. Returns nothing if the diagnosis is only counted.
  /// Otherwise returns how many were counted since the last line of the subject. A diagnosis whose
  /// state differs from that of the last line always gets a line. One that is stuck gets a line,
  /// too, if it names other ranks, or if it is another one than the last, which has ended.
  std::optional<std::uint64_t> next(const Subject& subject, Diagnosis::State state, Time now,
                                    const std::vector<Rank>& ranks = {},
                                    const std::string& sentence = {});

  /// Decides about the line that says that a diagnosis does not hold any more. Returns true if the
  /// subject got a line since the last such line.
  bool ended(const Subject& subject);

 private:
  struct Entry {
    Diagnosis::State state = Diagnosis::State::running;  ///< in the last line
    std::vector<Rank> ranks = {};                        ///< in the last line
    std::string sentence = {};                           ///< in the last line
    Time written;                                        ///< time of the last line
    std::uint64_t folded = 0;                            ///< counted since the last line
    bool holds = false;  ///< the last line of the subject says that the diagnosis holds
  };

  Entry& entry_of(const Subject& subject);

  std::map<Subject, Entry> entries_;
};

}  // namespace c10dd::daemon
