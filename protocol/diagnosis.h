// SPDX-License-Identifier: Apache-2.0
// Diagnosis: says in one sentence why a job does not go on. It follows from who waits for whom,
// over all groups of the job; the ends of these chains are the cause. The rule is the one of
// NVIDIA's resiliency extension (the first blocked group in the order of dependencies has the
// suspects), with the cycles that it leaves out.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/wait_for.h"

namespace c10dd {

struct Diagnosis {
  enum class State : std::uint8_t {
    running,  ///< nobody waits for long
    waiting,  ///< the awaited live, or have not come yet
    stuck,    ///< it will not go on by itself
  };
  /// The first that holds is the diagnosis.
  enum class Kind : std::uint8_t {
    none,       ///< State::running
    lost,       ///< a generation has ended, or a rank has given up
    mismatch,   ///< ranks have issued different collectives
    deadlock,   ///< ranks wait for each other in a circle
    unsent,     ///< a rank waits for a message that the other rank does not send, or receive
    missing,    ///< a rank, or a key, has not come
    queued,     ///< a collective was issued, but the backend of some rank has not begun
    hung,       ///< all ranks are in a collective, and it does not end
    diverged,   ///< ranks have issued different collectives, and have all gone on
    straggler,  ///< a rank comes late to most collectives
  };

  State state = State::running;
  Kind kind = Kind::none;
  TimePoint since;                      ///< of the wait-for that is named
  std::string sentence = {};            ///< at most kSentenceBytes; has no time that passes
  std::vector<Rank> ranks = {};         ///< the cause, ascending; those whose ranks are known
  std::vector<std::string> hosts = {};  ///< of the cause, ascending
  std::size_t waiting = 0;              ///< ranks that wait for the cause
  std::vector<std::uint64_t> process_groups = {};  ///< that the cause is in; ascending
  /// The process groups can never go on, whatever their ranks do: a mismatch, or a deadlock of
  /// ranks that are blocked, and it is confirmed.
  bool hopeless = false;
  /// A line for each wait-for that leads to the cause, the nearest first; at most kEvidence.
  std::vector<std::string> evidence = {};

  static constexpr std::size_t kSentenceBytes = 240;
  static constexpr std::size_t kEvidence = 16;
  /// A collective that does not end is hung only after this time.
  static constexpr Duration kHung = std::chrono::seconds(30);
  /// A circle may be of two threads that each hold a rank up for a while. Only after this time it
  /// is stuck.
  static constexpr Duration kCircle = std::chrono::seconds(15);
  /// Only then it is hopeless, if all its ranks are blocked: a thread that has issued nothing so
  /// far may come.
  static constexpr Duration kHopeless = std::chrono::seconds(5);

  /// Returns whether both say the same, perhaps at another time.
  bool says_the_same(const Diagnosis& other) const {
    return state == other.state && kind == other.kind && sentence == other.sentence;
  }
};

std::string_view name_of(Diagnosis::State state);
std::string_view name_of(Diagnosis::Kind kind);

/// Finds the cause. `ranks` has all ranks and processes to which the wait-fors and deviations refer
/// by their place. Equal calls give equal results. Takes time in proportion to the length of all
/// lists, but for sorting.
Diagnosis diagnose(std::span<const WaitFor> wait_fors, std::span<const Deviation> deviations,
                   std::span<const RankFacts> ranks, TimePoint now);

}  // namespace c10dd
