// SPDX-License-Identifier: Apache-2.0
#include "daemon/shard/diagnosis_pace.h"

#include <algorithm>
#include <utility>

namespace c10dd::daemon {

std::optional<std::uint64_t> DiagnosisPace::next(const Subject& subject, Diagnosis::State state,
                                                 Time now, const std::vector<Rank>& ranks,
                                                 const std::string& sentence) {
  Entry& entry = entry_of(subject);
  const bool differs = entry.ranks != ranks || (!entry.holds && entry.sentence != sentence);
  const bool others = state == Diagnosis::State::stuck && differs;
  if (entry.state == state && !others && now - entry.written < kFold) {
    ++entry.folded;
    return std::nullopt;
  }
  entry.state = state;
  entry.ranks = ranks;
  entry.sentence = sentence;
  entry.written = now;
  entry.holds = true;
  return std::exchange(entry.folded, 0);
}

bool DiagnosisPace::ended(const Subject& subject) {
  const auto found = entries_.find(subject);
  return found != entries_.end() && std::exchange(found->second.holds, false);
}

/// Returns the entry of a subject. A new one has no line: its state is that of no diagnosis.
DiagnosisPace::Entry& DiagnosisPace::entry_of(const Subject& subject) {
  const auto found = entries_.find(subject);
  if (found != entries_.end()) return found->second;
  if (entries_.size() >= kSubjects) {
    entries_.erase(std::ranges::min_element(
        entries_, {}, [](const auto& entry) { return entry.second.written; }));
  }
  return entries_[subject];
}

}  // namespace c10dd::daemon
