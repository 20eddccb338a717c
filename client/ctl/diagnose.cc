// SPDX-License-Identifier: Apache-2.0
#include "client/ctl/diagnose.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "protocol/exit_codes.h"
#include "protocol/format.h"
#include "protocol/json_text.h"
#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd::ctl {
namespace {

namespace json = boost::json;
using State = Diagnosis::State;

constexpr double kLongest = 100.0 * 366 * 86400;  // seconds; a longer age is not shown
constexpr std::size_t kListed = 16;               // of hosts or runs

const json::value* member(const json::value& of, std::string_view name) {
  const json::object* const object = of.if_object();
  return object == nullptr ? nullptr : object->if_contains(name);
}

std::string one_line(std::string_view text) { return printable(text, text.size()); }

/// Returns a member in one printable line; empty if it is missing or no text.
std::string line_in(const json::value& of, std::string_view name) {
  const json::value* const found = member(of, name);
  return found != nullptr && found->is_string() ? one_line(found->get_string()) : "";
}

std::vector<std::string> lines_in(const json::value& of, std::string_view name) {
  std::vector<std::string> lines;
  for (const json::value& one : list_in(of, name)) {
    if (one.is_string()) lines.push_back(one_line(one.get_string()));
  }
  return lines;
}

std::optional<State> state_in(const json::value& diagnosis) {
  const std::string word = line_in(diagnosis, "state");
  for (const State state : {State::running, State::waiting, State::stuck}) {
    if (word == name_of(state)) return state;
  }
  return std::nullopt;
}

std::vector<Rank> ranks_in(const json::value& diagnosis) {
  std::vector<Rank> ranks;
  for (const json::value& one : list_in(diagnosis, "ranks")) {
    boost::system::error_code none;
    const auto rank = one.is_number() ? one.to_number<Rank>(none) : Rank{0};
    if (one.is_number() && !none) ranks.push_back(rank);
  }
  std::ranges::sort(ranks);
  return ranks;
}

std::optional<std::uint64_t> count_in(const json::value& of, std::string_view name) {
  const json::value* const found = member(of, name);
  if (found == nullptr || !found->is_number()) return std::nullopt;
  boost::system::error_code none;
  const auto count = found->to_number<std::uint64_t>(none);
  return none ? std::nullopt : std::optional(count);
}

/// Returns how long ago a time was, for people, after a word; empty if it is not known.
std::string age_of(std::string_view word, const std::optional<double>& since, WallTime now) {
  if (!since) return {};
  const double age = std::chrono::duration<double>(now.time_since_epoch()).count() - *since;
  if (age > kLongest) return {};
  // The clock of the daemon may be ahead.
  const std::chrono::duration<double> seconds(std::max(age, 0.0));
  return format(" {} {}", word, human(std::chrono::duration_cast<Duration>(seconds)));
}

/// Returns words with commas between; of many, the first ones and the number of the others.
std::string list_of(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t n = 0; n < words.size(); ++n) {
    if (n == kListed) return text + format(" and {} more", words.size() - n);
    text += (n == 0 ? "" : ", ") + words[n];
  }
  return text;
}

/// Returns the lines below the sentence.
std::string details_of(const RunDiagnosis& one) {
  const auto line = [](std::string_view name, const std::string& value) {
    return format("  {}: {}\n", name, value.empty() ? "-" : value);
  };
  std::string text = line("kind", one.kind);
  text += line("ranks", one.ranks.empty() ? "" : fold(one.ranks));
  text += line("hosts", list_of(one.hosts));
  text += line("waiting", one.waiting ? std::to_string(*one.waiting) : "");
  if (!one.evidence.empty()) text += "  evidence:\n";
  for (const std::string& evidence : one.evidence) text += "    " + evidence + "\n";
  return text;
}

/// Says which runs have no diagnosis; empty if all have one.
std::string without_diagnosis(const std::vector<RunDiagnosis>& runs) {
  std::vector<std::string> names;
  for (const RunDiagnosis& one : runs) {
    if (!one.state) names.push_back(name_shown(one));
  }
  if (names.empty()) return {};
  return format(
      "the daemon sends no diagnosis of {} that c10ddctl {} can read; install the same version of "
      "both",
      list_of(names), C10DD_VERSION);
}

/// 0 for the worst state.
int class_of(const RunDiagnosis& one) {
  if (one.state == State::stuck) return 0;
  return one.state == State::waiting ? 1 : 2;
}

}  // namespace

RunDiagnosis diagnosis_of(const json::value& run) {
  RunDiagnosis out;
  out.run = line_in(run, "run");
  const json::value* const found = member(run, "diagnosis");
  if (found == nullptr) return out;
  const std::string word = line_in(*found, "state");
  if (word == "ended" || word == "idle") out.quiet = word;
  out.state = out.quiet.empty() ? state_in(*found) : State::running;
  if (!out.state) return out;
  if (const json::value* const last = member(*found, "last_stuck")) {
    out.last_stuck = line_in(*last, "sentence");
    out.last_ended = number_in(*last, "/ended");
  }
  out.kind = line_in(*found, "kind");
  if (*out.state == State::running) return out;
  out.since = number_in(*found, "/since");
  out.sentence = line_in(*found, "sentence");
  if (out.sentence.empty()) out.sentence = "the daemon does not say why";
  out.ranks = ranks_in(*found);
  out.hosts = lines_in(*found, "hosts");
  out.waiting = count_in(*found, "waiting");
  out.evidence = lines_in(*found, "evidence");
  return out;
}

bool is_worse(const RunDiagnosis& one, const RunDiagnosis& other) {
  const auto place = [](const RunDiagnosis& of) {
    const double never = std::numeric_limits<double>::infinity();
    return std::tuple(class_of(of), of.since.value_or(never));
  };
  return place(one) < place(other);
}

std::string name_shown(const RunDiagnosis& one) {
  return one.run.empty() ? "run without a name" : one.run;
}

std::string state_word(const RunDiagnosis& one) {
  if (!one.quiet.empty()) return one.quiet;
  return one.state ? std::string(name_of(*one.state)) : "";
}

std::string line_of(const RunDiagnosis& one, WallTime now) {
  if (!one.state) return name_shown(one) + ": not known: its daemon sends no diagnosis";
  const std::string text = format("{}: {}", name_shown(one), state_word(one));
  if (*one.state == State::running) return text;
  return format("{}{}: {}", text, age_of("for", one.since, now), one.sentence);
}

int code_of(const std::vector<RunDiagnosis>& runs) {
  const auto any = [&](std::optional<State> state) {
    return std::ranges::find(runs, state, &RunDiagnosis::state) != runs.end();
  };
  if (any(State::stuck)) return kStuckCode;
  if (any(std::nullopt)) return exit_code::kUsage;
  return any(State::waiting) ? kWaitingCode : exit_code::kDone;
}

DiagnosisPage ask_diagnosis(const Arguments& of) {
  DiagnosisPage out{page_of(ask_any(of, {.path = "/v1/jobs/" + in_path(of.operands[0])}))};
  if (!out.page.body) return out;
  json::array selected;
  for (const json::value& run : list_in(*out.page.body, "runs")) {
    RunDiagnosis one = diagnosis_of(run);
    out.names.push_back(name_shown(one));
    if (!of.run.empty() && one.run != printable_name(of.run)) continue;
    out.runs.push_back(std::move(one));
    selected.push_back(run);
  }
  out.page.body->as_object()["runs"] = std::move(selected);
  return out;
}

std::string no_such_run(const Arguments& of, const std::vector<std::string>& names) {
  const std::string job = printable_name(of.operands[0]);
  if (names.empty()) {
    return format("the daemon shows no run of job \"{}\"; c10ddctl jobs lists all runs", job);
  }
  return format("job \"{}\" has no run \"{}\"; its runs: {}", job, printable_name(of.run),
                list_of(names));
}

Outcome diagnose(const Arguments& of, WallTime now) {
  const DiagnosisPage found = ask_diagnosis(of);
  if (!found.page.body) return found.page.failed;
  const std::string note = line_in(*found.page.body, "note");
  if (found.names.empty() && !note.empty()) {
    return {exit_code::kDone, (of.json ? c10dd::json::text_of(*found.page.body) : note) + "\n", ""};
  }
  if (found.runs.empty()) return {exit_code::kUsage, "", no_such_run(of, found.names)};
  Outcome outcome{code_of(found.runs), "", without_diagnosis(found.runs)};
  if (of.json) {
    outcome.output = c10dd::json::text_of(*found.page.body) + "\n";
    return outcome;
  }
  for (const RunDiagnosis& one : found.runs) {
    outcome.output += line_of(one, now) + "\n";
    if (one.state && *one.state != State::running) outcome.output += details_of(one);
    if (one.last_stuck.empty()) continue;
    const std::string ago = age_of("ended", one.last_ended, now);
    outcome.output +=
        format("  last stuck{}: {}\n", ago.empty() ? "" : "," + ago + " ago", one.last_stuck);
  }
  return outcome;
}

}  // namespace c10dd::ctl
