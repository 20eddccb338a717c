// SPDX-License-Identifier: Apache-2.0
// How the sentences of a diagnosis name ranks, and say where they are and who waits. A sentence
// that is too long is made again with less.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/diagnosis.h"

namespace c10dd {

struct DiagnosisWording {
  using Places = std::vector<std::size_t>;
  static constexpr std::size_t kSets = 3;    ///< of ranks, in one sentence
  static constexpr std::size_t kShort = 64;  ///< bytes of a name where the sentence is too long

  bool hosts = true;
  bool whole_names = true;
  std::size_t sets = kSets;
  std::span<const RankFacts> ranks = {};
  std::span<const std::size_t> waiting = {};  ///< for the cause

  std::string text(const std::string& name) const;
  std::string who(const Places& places) const;
  /// Returns for example "4095 ranks wait".
  std::string waits() const;
  /// Says where ranks are that others wait for, behind their names. They have the same state.
  std::string where(const Places& places, WaitFor::Kind kind) const;

  /// Returns whether RankFacts::doing says more of a rank in this state.
  static bool shows_doing(RankFacts::State state);
  /// Returns for example "3 others are connected".
  static std::string connected(std::size_t others);
  /// Returns for example "2 more ranks".
  static std::string more(std::size_t count, std::string_view noun);
  /// Says how many more ranks are awaited, of whom nothing is known; there is at least one.
  static std::string unnamed(const WaitFor& of, std::size_t count);
  /// Returns the text without control characters, and at most `most` bytes of it.
  static std::string cut(std::string_view text, std::size_t most);
};

/// Makes a text with the first wording in which it fits; if there is none, cuts it.
template <class Compose>
std::string fitted(std::span<const RankFacts> ranks, const Compose& compose,
                   std::span<const std::size_t> waiting = {}) {
  using Wording = DiagnosisWording;
  std::string text;
  for (Wording wording : {Wording{}, Wording{true, false}, Wording{false, true},
                          Wording{false, false}, Wording{false, false, 1}}) {
    wording.ranks = ranks;
    wording.waiting = waiting;
    text = compose(wording);
    if (text.size() <= Diagnosis::kSentenceBytes) break;
  }
  return Wording::cut(text, Diagnosis::kSentenceBytes);
}

}  // namespace c10dd
