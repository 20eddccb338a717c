// SPDX-License-Identifier: Apache-2.0
#include "daemon/http/diagnosis_json.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <optional>

#include "protocol/utf8.h"

namespace c10dd::daemon {
namespace {

/// Returns a sentence of a diagnosis. It is printable already, so this changes nothing; but one
/// byte that is not UTF-8 would spoil the whole page.
std::string printable_sentence(const std::string& sentence) {
  return printable(sentence, Diagnosis::kSentenceBytes);
}

boost::json::array hosts_of(const Diagnosis& is) {
  boost::json::array hosts;
  for (const std::string& host : is.hosts) {
    hosts.push_back(boost::json::string(printable_name(host)));
  }
  return hosts;
}

/// Returns a time in Unix seconds, to a millisecond.
double unix_seconds(std::chrono::system_clock::time_point now, Duration ago) {
  const auto at =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch() - ago);
  return static_cast<double>(at.count()) / 1000;
}

/// A diagnosis of which no process is left to tell, or that has ended.
struct Past {
  const Diagnosis& is;
  Duration ago;  ///< since it ended
};
std::optional<Past> past_of(const core::JobReport& run) {
  const bool alone = run.stats.sessions == 0;
  if (alone && run.diagnosis.state == Diagnosis::State::stuck) return Past{run.diagnosis, {}};
  if (run.last_stuck.kind == Diagnosis::Kind::none) return std::nullopt;
  return Past{run.last_stuck, run.last_ended};
}

/// Returns whether all processes of a run, none of which is connected, have left. The page shows it
/// until the daemon erases it. The permanent name space of a job does not end.
bool has_ended(const core::JobReport& run) {
  return !run.run.empty() && run.stats.sessions_known == 0;
}

}  // namespace

boost::json::object diagnosis_json(const core::JobReport& run,
                                   std::chrono::system_clock::time_point now) {
  const Diagnosis& is = run.diagnosis;
  const bool alone = run.stats.sessions == 0;
  boost::json::object out = {{"state", !alone           ? name_of(is.state)
                                       : has_ended(run) ? "ended"
                                                        : "idle"}};
  if (const std::optional<Past> past = past_of(run)) {
    out["last_stuck"] = {
        {"kind", name_of(past->is.kind)},
        {"ended", unix_seconds(now, past->ago)},
        {"sentence", printable_sentence(past->is.sentence)},
        {"ranks", boost::json::array(past->is.ranks.begin(), past->is.ranks.end())},
        {"hosts", hosts_of(past->is)}};
  }
  if (alone || is.state == Diagnosis::State::running) return out;
  boost::json::array evidence;
  for (const std::string& line : is.evidence) {
    evidence.push_back(boost::json::string(printable_sentence(line)));
  }
  out["kind"] = name_of(is.kind);
  out["since"] = unix_seconds(now, run.diagnosed);
  out["sentence"] = printable_sentence(is.sentence);
  out["ranks"] = boost::json::array(is.ranks.begin(), is.ranks.end());
  out["hosts"] = hosts_of(is);
  out["waiting"] = is.waiting;
  out["evidence"] = std::move(evidence);
  return out;
}

std::string diagnosis_line(const core::JobReport& run) {
  if (run.stats.sessions == 0 || run.diagnosis.state == Diagnosis::State::running) {
    const std::optional<Past> past = past_of(run);
    return past ? "last stuck: " + printable_sentence(past->is.sentence) + "\n" : "";
  }
  return std::string(name_of(run.diagnosis.state)) + ": " +
         printable_sentence(run.diagnosis.sentence) + "\n";
}

}  // namespace c10dd::daemon
