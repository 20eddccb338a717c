// SPDX-License-Identifier: Apache-2.0
// What a scenario found, and how it is shown: a table for people, JSON for programs.
#pragma once

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "tests/bench/histogram.h"

namespace c10dd::bench {

/// One round of one series; durations in microseconds.
struct Sample {
  double per_second = 0;
  double cpu = 0;  ///< that the server took for one; 0: not known
  double p50 = 0;
  double p99 = 0;
  double p999 = 0;
  double max = 0;
  std::uint64_t count = 0;
  double seconds = 0;
};
Sample sample_of(const Histogram& latency, double seconds, double cpu_seconds = 0);
/// The round of one thing that took so long.
Sample sample_of_one(std::chrono::nanoseconds took);

/// The same measurement, round after round.
struct Series {
  std::string name;
  std::string how;  ///< what was measured: how its server was started
  std::vector<Sample> rounds;
  std::string bars =
      {};  ///< the series that is compared with this one; empty: ScenarioResult::bars

  Sample median() const;  ///< of each value by itself
};

/// A value that is not a duration, round after round.
struct Fact {
  std::string name;
  std::string unit;
  std::vector<double> rounds;
  int decimals = 0;  ///< that the table shows
};

struct ScenarioResult {
  std::string name;
  std::string counted;  ///< what per_second counts
  std::string bars;     ///< the series that is compared with each other one; empty: none
  std::vector<std::pair<std::string, std::uint64_t>> parameters;
  double round_seconds = 0;  ///< 0: a round is as long as it takes
  std::vector<Series> series;
  std::vector<Fact> facts;
  std::string skipped;  ///< why nothing, or not all, was measured
};

/// The series that is compared with another one, or nullptr.
const Series* compared_with(const ScenarioResult& result, const Series& to);

/// The median over the rounds of one series' value divided by the other's in the same round.
double ratio(const Series& of, const Series& to, double Sample::*value);

void print_table(std::ostream& out, const ScenarioResult& result);

/// All results, with the facts of the machine that they depend on.
void print_json(std::ostream& out, const std::vector<ScenarioResult>& results);

}  // namespace c10dd::bench
