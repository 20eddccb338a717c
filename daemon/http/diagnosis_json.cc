// SPDX-License-Identifier: Apache-2.0
#include "daemon/http/diagnosis_json.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "protocol/utf8.h"

namespace c10dd::daemon {
namespace {

/// Returns a sentence of a diagnosis. It is printable already, so this changes nothing; but one
/// byte that is not UTF-8 would spoil the whole page.
std::string printable_sentence(const std::string& sentence) {
  return printable(sentence, Diagnosis::kSentenceBytes);
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
  if (run.stats.sessions == 0) return {{"state", has_ended(run) ? "ended" : "idle"}};
  boost::json::object out = {{"state", name_of(is.state)}};
  if (is.state == Diagnosis::State::running) return out;
  const auto since =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch() - run.diagnosed);
  boost::json::array hosts;
  for (const std::string& host : is.hosts) {
    hosts.push_back(boost::json::string(printable_name(host)));
  }
  boost::json::array evidence;
  for (const std::string& line : is.evidence) {
    evidence.push_back(boost::json::string(printable_sentence(line)));
  }
  out["kind"] = name_of(is.kind);
  out["since"] = static_cast<double>(since.count()) / 1000;
  out["sentence"] = printable_sentence(is.sentence);
  out["ranks"] = boost::json::array(is.ranks.begin(), is.ranks.end());
  out["hosts"] = std::move(hosts);
  out["waiting"] = is.waiting;
  out["evidence"] = std::move(evidence);
  return out;
}

std::string diagnosis_line(const core::JobReport& run) {
  if (run.stats.sessions == 0 || run.diagnosis.state == Diagnosis::State::running) return {};
  return std::string(name_of(run.diagnosis.state)) + ": " +
         printable_sentence(run.diagnosis.sentence) + "\n";
}

}  // namespace c10dd::daemon
