// SPDX-License-Identifier: Apache-2.0
// A job with ranks and wait-fors, for the tests of diagnose().
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "protocol/diagnosis.h"
#include "protocol/wording.h"

namespace c10dd::diagnosed {

using namespace std::chrono_literals;

using In = WaitFor::Kind;
using Is = RankFacts::State;
using Kind = Diagnosis::Kind;
using State = Diagnosis::State;
using Places = std::vector<std::size_t>;
using Texts = std::vector<std::string>;

constexpr TimePoint kStart{1h};

/// Returns the places first .. last, both included.
inline Places from_to(std::size_t first, std::size_t last) {
  Places places;
  for (std::size_t at = first; at <= last; ++at) places.push_back(at);
  return places;
}

/// A job whose ranks are at the place of their number, and who waits for whom in it.
struct DiagnosedJob {
  std::vector<RankFacts> ranks;
  std::vector<WaitFor> wait_fors;
  std::vector<Deviation> deviations;

  /// If the ranks have hosts, rank 3 is process 1003 on n3.
  explicit DiagnosedJob(std::size_t size, bool hosts = false) : ranks(size) {
    for (std::size_t i = 0; i < size; ++i) {
      ranks[i].rank = static_cast<Rank>(i);
      if (hosts) ranks[i].host = "n" + std::to_string(i);
      if (hosts) ranks[i].pid = 1000 + i;
    }
  }
  /// The reference is valid until the next call.
  WaitFor& add(In kind, std::string what, Duration began, const Places& waiting,
               const Places& awaited) {
    return wait_fors.emplace_back(WaitFor{kind, std::move(what), kStart + began, waiting, awaited});
  }
  WaitFor& barrier(const std::string& name, Duration began, const Places& waiting,
                   const Places& awaited) {
    return add(In::barrier, "barrier " + name, began, waiting, awaited);
  }
  Diagnosis found(Duration now = 20s) const {
    return diagnose(wait_fors, deviations, ranks, kStart + now);
  }
  /// Adds an operation of a process group that those who wait have told twice.
  WaitFor& operation(In kind, std::string what, std::uint64_t process_group, Duration began,
                     const Places& waiting, const Places& awaited) {
    WaitFor& one = add(kind, std::move(what), began, waiting, awaited);
    one.process_group = process_group;
    one.confirmed = true;
    return one;
  }
  void block(const Places& places) {
    for (const std::size_t place : places) ranks[place].blocked = true;
  }
  std::string sentence() const { return found().sentence; }
  /// Returns the ranks that are the cause, and how many wait for them: "[17] 4095".
  std::string cause() const { return fold(found().ranks) + " " + std::to_string(found().waiting); }
  /// Returns "STATE KIND CAUSE: SENTENCE".
  std::string text(Duration now = 20s) const {
    const Diagnosis one = found(now);
    return std::string(name_of(one.state)) + " " + std::string(name_of(one.kind)) + " " + cause() +
           ": " + one.sentence;
  }
};

}  // namespace c10dd::diagnosed
