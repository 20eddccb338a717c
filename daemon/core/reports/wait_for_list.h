// SPDX-License-Identifier: Apache-2.0
// The wait-fors of a job while they are collected, and those to whom they refer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "daemon/core/reports/known_ranks.h"
#include "protocol/wait_for.h"

namespace c10dd::core {

class WaitForList {
 public:
  /// How many entries all lists of all wait-fors may have. What comes later is left out.
  static constexpr std::size_t kEntries = 524'288;
  /// How many ranks of which nothing is known one wait-for names. The others are only counted.
  static constexpr std::size_t kUnknown = 64;

  explicit WaitForList(KnownRanks known) : known_(std::move(known)) {}

  KnownRanks& known() { return known_; }
  const RankFacts& facts(std::size_t place) const { return known_.facts()[place]; }

  /// Adds a wait-for if anybody waits, and if anybody or anything is awaited, or if it is an
  /// operation of a process group, which may not end although all its ranks are in it. Nobody is
  /// both waiting and awaited; a lost rank does not wait.
  void add(WaitFor one) {
    sort(one.waiting);
    sort(one.awaited);
    sort(one.held);
    entries_ += one.waiting.size() + one.awaited.size();
    std::erase_if(one.awaited, [&](std::size_t place) {
      return std::ranges::binary_search(one.waiting, place) && !facts(place).is_lost();
    });
    std::erase_if(one.waiting, [&](std::size_t place) { return facts(place).is_lost(); });
    const bool alone = one.kind == WaitFor::Kind::key || one.process_group != 0;
    if (one.awaited.empty() && one.unnamed == 0 && one.lost.empty() && !alone) return;
    if (one.waiting.empty() && one.lost.empty()) return;  // nobody is left who waits
    all_.push_back(std::move(one));
  }
  bool full() const { return entries_ >= kEntries; }

  const std::vector<WaitFor>& all() const { return all_; }
  std::vector<WaitFor> take() { return std::move(all_); }

 private:
  static void sort(std::vector<std::size_t>& places) {
    if (!std::ranges::is_sorted(places)) std::ranges::sort(places);
    places.erase(std::unique(places.begin(), places.end()), places.end());
  }

  KnownRanks known_;
  std::vector<WaitFor> all_;
  std::size_t entries_ = 0;
};

}  // namespace c10dd::core
