// SPDX-License-Identifier: Apache-2.0
// c10ddctl diagnose: says why the runs of a job do not go on, as their daemons have found out.
// Daemons of an older version do not say it: then the state of a run is not known.
#pragma once

#include <boost/json/value.hpp>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/ctl/arguments.h"
#include "client/ctl/outcome.h"
#include "client/ctl/page.h"
#include "protocol/diagnosis.h"

namespace c10dd::ctl {

using WallTime = std::chrono::system_clock::time_point;

/// Exit codes of `diagnose` only: the worst state of the runs that it shows. A job whose runs are
/// all running gives exit_code::kDone.
inline constexpr int kWaitingCode = 1;
inline constexpr int kStuckCode = 2;

/// What a page says about one run. All texts are printable, each in one line.
struct RunDiagnosis {
  std::string run = {};                        ///< empty: a run without a name
  std::optional<Diagnosis::State> state = {};  ///< nothing: not known
  /// "ended" or "idle" if nobody is connected; then `state` is running.
  std::string quiet = {};
  std::string kind = {};             ///< as the daemon calls it
  std::optional<double> since = {};  ///< Unix seconds
  std::string sentence = {};         ///< empty if the run is running
  std::vector<Rank> ranks = {};      ///< ascending
  std::vector<std::string> hosts = {};
  std::optional<std::uint64_t> waiting = {};  ///< how many ranks wait
  std::vector<std::string> evidence = {};
  /// Why it was stuck before; empty: it was not, or is stuck now. With when that ended, in Unix
  /// seconds.
  std::string last_stuck = {};
  std::optional<double> last_ended = {};

  /// Returns whether both say the same, perhaps about another time.
  bool says_the_same(const RunDiagnosis& other) const {
    return state == other.state && quiet == other.quiet && kind == other.kind &&
           sentence == other.sentence;
  }
};

/// Reads the row of a run of GET /v1/jobs or GET /v1/jobs/{job}. What is not of the expected type
/// reads as not known.
RunDiagnosis diagnosis_of(const boost::json::value& run);

/// Orders runs for a table: stuck ones first, then those that wait, then the others. Those that do
/// not go on are ordered by age, the oldest first. Does not order the others.
bool is_worse(const RunDiagnosis& one, const RunDiagnosis& other);

/// Returns the name of the run, or words for a run without a name.
std::string name_shown(const RunDiagnosis& one);

/// Returns the state as a word; empty if it is not known.
std::string state_word(const RunDiagnosis& one);

/// Returns for example "r1: stuck for 12 s: rank 17 on node9 ...".
std::string line_of(const RunDiagnosis& one, WallTime now);

/// Returns the exit code for these runs, that of the worst one. A run whose state is not known
/// makes it exit_code::kUsage, unless another run is stuck.
int code_of(const std::vector<RunDiagnosis>& runs);

/// A page of GET /v1/jobs/{job}, reduced to the runs that the command line selects.
struct DiagnosisPage {
  Page page;
  std::vector<RunDiagnosis> runs = {};  ///< in the order of the page
  std::vector<std::string> names = {};  ///< of all runs that the daemon knows
};

/// Asks for the runs of the job that the command line names.
DiagnosisPage ask_diagnosis(const Arguments& of);

/// Says that the daemon knows no run that the command line selects, and which runs it knows.
std::string no_such_run(const Arguments& of, const std::vector<std::string>& names);

/// Shows the diagnosis of each run. `now` tells since when a run does not go on.
Outcome diagnose(const Arguments& of, WallTime now);

}  // namespace c10dd::ctl
