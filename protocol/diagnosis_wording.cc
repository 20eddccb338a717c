// SPDX-License-Identifier: Apache-2.0
#include "protocol/diagnosis_wording.h"

#include <algorithm>
#include <array>

#include "protocol/format.h"
#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd {
namespace {

/// What a connected rank, of which no more is known, has not done; by WaitFor::Kind.
constexpr std::array<std::string_view, 7> kNotDone = {"arrived",
                                                      "joined",
                                                      "arrived",
                                                      "set it",
                                                      "issued it",
                                                      "sent the message",
                                                      "received the message"};

/// Where one rank is, and where several are; by RankFacts::State.
constexpr std::array<std::array<std::string_view, 2>, 9> kWhere = {{
    {"which is", "which are"},
    {"which has stalled", "which have stalled"},
    {"which never connected", "which never connected"},
    {"which has not connected since the daemon loaded the job",
     "which have not connected since the daemon loaded the job"},
    {"whose connection has closed", "whose connections have closed"},
    {"which is silent", "which are silent"},
    {"whose host does not answer", "whose hosts do not answer"},
    {"which has left", "which have left"},
    {"which is gone", "which are gone"},
}};

}  // namespace

std::string DiagnosisWording::cut(std::string_view text, std::size_t most) {
  constexpr std::string_view kMore = "...";
  std::string whole = printable(text, most + 1);
  if (whole.size() <= most) return whole;
  return printable(whole, most - kMore.size()).append(kMore);
}

bool DiagnosisWording::shows_doing(RankFacts::State state) {
  return state <= RankFacts::State::slow || state == RankFacts::State::gone;
}

std::string DiagnosisWording::connected(std::size_t others) {
  return others == 1 ? "1 other is connected" : format("{} others are connected", others);
}

std::string DiagnosisWording::more(std::size_t count, std::string_view noun) {
  return format("{} more {}{}", count, noun, count == 1 ? "" : "s");
}

std::string DiagnosisWording::unnamed(const WaitFor& of, std::size_t count) {
  return of.open ? "ranks that are not known" : more(count, "rank");
}

std::string DiagnosisWording::text(const std::string& name) const {
  return whole_names ? name : cut(name, kShort);
}

std::string DiagnosisWording::who(const Places& places) const {
  std::vector<const RankFacts*> facts;
  facts.reserve(places.size());
  for (const std::size_t place : places) facts.push_back(&ranks[place]);
  return name_of_ranks(facts, hosts);
}

std::string DiagnosisWording::waits() const {
  const bool ranked = std::ranges::all_of(waiting, [&](auto at) { return !!ranks[at].rank; });
  if (waiting.size() == 1) return ranked ? "1 rank waits" : "1 process waits";
  return format("{} {} wait", waiting.size(), ranked ? "ranks" : "processes");
}

std::string DiagnosisWording::where(const Places& places, WaitFor::Kind kind) const {
  const RankFacts& one = ranks[places.front()];
  const bool one_host = !one.host.empty() && std::ranges::all_of(places, [&](std::size_t place) {
    return ranks[place].host == one.host;
  });
  const bool of_host = one.state == RankFacts::State::no_answer;
  const bool several = places.size() > 1 && !(of_host && one_host);
  const std::string state(kWhere[static_cast<std::size_t>(one.state)][several]);
  if (!one.doing.empty() && shows_doing(one.state)) {
    return state + (one.state == RankFacts::State::gone ? ": " : " ") + text(one.doing);
  }
  if (one.state != RankFacts::State::live) return state;
  return format("{} connected, but {} not {}", state, several ? "have" : "has",
                kNotDone[static_cast<std::size_t>(kind)]);
}

}  // namespace c10dd
