// SPDX-License-Identifier: Apache-2.0
#include "client/ctl/flight.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <ctime>
#include <utility>

#include "client/ctl/diagnose.h"
#include "client/ctl/flight_files.h"
#include "protocol/exit_codes.h"
#include "protocol/format.h"
#include "protocol/json_text.h"
#include "protocol/wording.h"

namespace c10dd::ctl {
namespace {

namespace json = boost::json;

constexpr std::size_t kGroupsShown = 64;
constexpr std::size_t kPositionsShown = 16;  // of one group
constexpr std::size_t kOddShown = 16;

bool is_known(const FlightView& view) {
  return view.diagnosis.state != Diagnosis::State::running || view.without_record.empty();
}

std::string named(std::span<const Rank> ranks) {
  return ranks.size() == 1 ? format("rank {}", ranks.front()) : "ranks " + fold(ranks);
}

/// Returns the sentence behind the state.
std::string sentence_of(const FlightView& view) {
  if (view.diagnosis.state != Diagnosis::State::running) return view.diagnosis.sentence;
  if (is_known(view)) return "no group waits";
  return format("no group waits as far as the records show, but there is none of {}; read the log",
                named(view.without_record));
}

std::string state_of(const FlightView& view) {
  return is_known(view) ? std::string(name_of(view.diagnosis.state)) : "unknown";
}

std::string utc(TimePoint time) {
  const std::time_t seconds =
      std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
  std::tm parts{};
  char text[32] = "";
  if (::gmtime_r(&seconds, &parts) == nullptr) return {};
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts);
  return text;
}

/// Returns what ranks have done with their operation.
std::string_view done_with(FlightOperation::State state) {
  constexpr std::string_view kDone[] = {"issued", "started", "given up", "ended", "completed"};
  return kDone[static_cast<std::size_t>(state)];
}

std::string line_of(const FlightPosition& one) {
  const std::string who = named(one.ranks) + (one.ranks.size() == 1 ? " has " : " have ");
  if (one.call.empty()) return "  " + who + "issued nothing\n";
  const std::string where = one.line.empty() ? "" : ", at " + one.line;
  return format("  {}{} {}{}\n", who, done_with(one.state), one.call, where);
}

std::string lines_of(const FlightGroupView& group, const std::vector<Rank>& without_record) {
  const bool whole = std::ranges::none_of(
      group.ranks, [&](Rank rank) { return std::ranges::binary_search(without_record, rank); });
  const std::string with = whole ? "" : " with a record";
  std::string text = format("{} of {}{}: ", group.label, named(group.ranks),
                            group.complete ? "" : ", as far as known");
  text += group.last ? format("all{} have ended the collectives up to {}\n", with, *group.last)
                     : format("no collective has ended on all{}\n", with);
  for (std::size_t i = 0; i < group.positions.size(); ++i) {
    if (i == kPositionsShown) {
      return text + format("  and {} more places\n", group.positions.size() - i);
    }
    text += line_of(group.positions[i]);
  }
  return text;
}

std::string table_of(const FlightView& view) {
  const Diagnosis& found = view.diagnosis;
  const bool waits = found.state != Diagnosis::State::running;
  const std::string since = waits ? " since " + utc(found.since) : "";
  std::string text = format("{}{}: {}\n", state_of(view), since, sentence_of(view));
  if (waits) {
    text += format("  kind: {}\n", name_of(found.kind));
    text += format("  ranks: {}\n", found.ranks.empty() ? "-" : fold(found.ranks));
    text += format("  waiting: {}\n  evidence:\n", found.waiting);
    for (const std::string& line : found.evidence) text += "    " + line + "\n";
  }
  if (!view.without_record.empty()) text += format("no record of {}\n", named(view.without_record));
  for (std::size_t i = 0; i < view.groups.size(); ++i) {
    if (i == kGroupsShown) return text + format("and {} more groups\n", view.groups.size() - i);
    text += lines_of(view.groups[i], view.without_record);
  }
  return text;
}

template <class List>
json::array array_of(const List& list) {
  json::array out;
  for (const auto& one : list) out.emplace_back(one);
  return out;
}

json::value json_of(const FlightGroupView& group) {
  json::array positions;
  for (const FlightPosition& one : group.positions) {
    positions.push_back({{"call", one.call},
                         {"state", done_with(one.state)},
                         {"line", one.line},
                         {"ranks", array_of(one.ranks)}});
  }
  return {{"group", group.label},
          {"ranks", array_of(group.ranks)},
          {"complete", group.complete},
          {"last", group.last ? json::value(*group.last) : json::value()},
          {"positions", std::move(positions)}};
}

std::string page_of(const FlightView& view) {
  const Diagnosis& found = view.diagnosis;
  json::array groups;
  for (const FlightGroupView& one : view.groups) groups.push_back(json_of(one));
  json::object diagnosis = {
      {"state", state_of(view)},       {"kind", name_of(found.kind)},
      {"sentence", sentence_of(view)}, {"ranks", array_of(found.ranks)},
      {"waiting", found.waiting},      {"evidence", array_of(found.evidence)}};
  if (found.state != Diagnosis::State::running) {
    diagnosis["since"] = seconds_of(found.since.time_since_epoch());
  }
  const json::value page = {{"diagnosis", std::move(diagnosis)},
                            {"without_record", array_of(view.without_record)},
                            {"left_out", array_of(view.left_out)},
                            {"groups", std::move(groups)}};
  return c10dd::json::text_of(page) + "\n";
}

std::string lines_of(const std::vector<std::string>& odd) {
  std::string text;
  for (std::size_t i = 0; i < odd.size(); ++i) {
    if (i == kOddShown) return text + format("\nand {} more files", odd.size() - i);
    text += (i == 0 ? "" : "\n") + odd[i];
  }
  return text;
}

}  // namespace

std::string text_of(const FlightView& view, bool json) {
  return json ? page_of(view) : table_of(view);
}

Outcome flight(const Arguments& of) {
  FlightFiles files = read_flight_files(of.operands);
  std::vector<std::string> odd = std::move(files.odd);
  if (files.records.empty()) return {exit_code::kUsage, "", lines_of(odd)};
  const Result<FlightView> view = view_flight(std::move(files.records));
  if (!view) {
    odd.push_back(view.error().detail);
    std::ranges::rotate(odd, odd.end() - 1);
    return {exit_code::kUsage, "", lines_of(odd)};
  }
  odd.insert(odd.end(), view->left_out.begin(), view->left_out.end());
  if (!files.old.empty()) {
    odd.push_back(format(
        "left out {} from an hour or more before the newest, the first is {}; name a file to use "
        "it",
        files.old.size() == 1 ? "a record" : format("{} records", files.old.size()),
        files.old.front()));
  }
  Outcome outcome{exit_code::kDone, text_of(*view, of.json), lines_of(odd)};
  if (files.others > 0 && !of.json) {
    outcome.output += format("{} other files are no flight records\n", files.others);
  }
  if (!is_known(*view)) outcome.code = kWaitingCode;
  if (view->diagnosis.state == Diagnosis::State::waiting) outcome.code = kWaitingCode;
  if (view->diagnosis.state == Diagnosis::State::stuck) outcome.code = kStuckCode;
  return outcome;
}

}  // namespace c10dd::ctl
