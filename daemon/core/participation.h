// SPDX-License-Identifier: Apache-2.0
// Records which sessions take part in which barriers and exchanges of a job: for each session, the
// unfinished ones where it has arrived, and the cohorts of the outcomes that name it.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "protocol/types.h"

namespace c10dd::core {

struct BarrierKey {
  enum class Kind : std::uint8_t { barrier, exchange };

  Kind kind = Kind::barrier;
  std::string name;
  std::uint64_t generation = 0;
  std::uint64_t sequence = 0;

  auto operator<=>(const BarrierKey&) const = default;

  /// Whether the other one differs in the sequence only.
  bool same_series(const BarrierKey& other) const {
    return kind == other.kind && generation == other.generation && name == other.name;
  }
  BarrierKey first_of_series() const { return {kind, name, generation, 0}; }
};

/// Who of some sessions is connected, and who may come back.
struct Turnout {
  std::size_t present = 0;
  std::vector<Rank> ranks;          ///< of those present, the first limits::kMissingNamed
  std::optional<SessionId> absent;  ///< of those that may come back, the one that is gone last
  TimePoint gone_at;                ///< when it is
};

/// The sessions of one or more outcomes, by rank. Outcomes of equal sessions share a cohort, so a
/// barrier in every step of a training costs no list of its own.
struct Cohort {
  std::vector<SessionId> sessions;  ///< 0 for ranks that had not arrived when it broke
  bool broken = false;              ///< all its outcomes are broken; else all are released
  std::set<BarrierKey> outcomes;    ///< those that are kept
  std::size_t departed = 0;         ///< ranks whose sessions have ended since
  Turnout turnout;                  ///< as Relaunch last saw it
  std::uint64_t turnout_at = 0;     ///< and when: see Barriers::presence_changes()

  bool in_series(const BarrierKey& key) const {
    const auto first = outcomes.lower_bound(key.first_of_series());
    return first != outcomes.end() && first->same_series(key);
  }
};
using CohortRef = std::shared_ptr<Cohort>;

class Participation {
 public:
  struct Participant {
    std::set<BarrierKey> waits;                              ///< unfinished, where it has arrived
    std::vector<std::pair<CohortRef, std::size_t>> cohorts;  ///< with its number of ranks
  };

  void arrived(const SessionId& session, const BarrierKey& key) {
    participants_[session].waits.insert(key);
  }
  void withdrew(const SessionId& session, const BarrierKey& key);

  /// An unfinished one has its outcome. Shares a cohort with `like` if it is of the same sessions.
  CohortRef finished(const BarrierKey& key, std::vector<SessionId> sessions, bool broken,
                     const CohortRef& like);

  /// An outcome is no longer kept.
  void forgotten(const BarrierKey& key, const CohortRef& cohort);

  /// The session has ended. Its cohorts count it as departed.
  std::optional<Participant> leave(const SessionId& session);

  const Participant* find(const SessionId& session) const;
  /// Who has arrived somewhere, in no order.
  std::vector<SessionId> sessions() const;

 private:
  void drop_if_idle(const SessionId& session);

  std::unordered_map<SessionId, Participant, SessionIdHash> participants_;  // looked up only
};

}  // namespace c10dd::core
