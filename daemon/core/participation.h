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

  /// Returns whether both keys are equal except for the sequence.
  bool same_series(const BarrierKey& other) const {
    return kind == other.kind && generation == other.generation && name == other.name;
  }
  BarrierKey first_of_series() const { return {kind, name, generation, 0}; }
};

/// Which sessions of a set are connected, and which may come back.
struct Turnout {
  std::size_t present = 0;
  std::vector<Rank> ranks;          ///< the first limits::kMissingNamed that are present
  std::optional<SessionId> absent;  ///< may come back; of several, the last to be gone
  TimePoint gone_at;                ///< when `absent` is taken for gone
};

/// The sessions of one or more outcomes, by rank. Outcomes of equal sessions share a cohort, so a
/// barrier in every training step does not store its own list.
struct Cohort {
  std::vector<SessionId> sessions;  ///< 0: the rank had not arrived when the barrier broke
  bool broken = false;              ///< whether all its outcomes are broken, or all released
  std::set<BarrierKey> outcomes;    ///< the outcomes that are still kept
  std::size_t departed = 0;         ///< ranks whose sessions have ended since
  Turnout turnout;                  ///< as Relaunch last saw it
  std::uint64_t turnout_at = 0;     ///< Barriers::presence_changes() at that time

  bool in_series(const BarrierKey& key) const {
    const auto first = outcomes.lower_bound(key.first_of_series());
    return first != outcomes.end() && first->same_series(key);
  }
};
using CohortRef = std::shared_ptr<Cohort>;

class Participation {
 public:
  struct Participant {
    std::set<BarrierKey> waits;  ///< unfinished barriers where the session has arrived
    std::vector<std::pair<CohortRef, std::size_t>> cohorts;  ///< with its number of ranks in each
  };

  void arrived(const SessionId& session, const BarrierKey& key) {
    participants_[session].waits.insert(key);
  }
  void withdrew(const SessionId& session, const BarrierKey& key);

  /// Notes that a barrier has its outcome, and returns the cohort of its sessions. That is `like`
  /// if its sessions and `broken` are the same.
  CohortRef finished(const BarrierKey& key, std::vector<SessionId> sessions, bool broken,
                     const CohortRef& like);

  /// Notes that an outcome is no longer kept.
  void forgotten(const BarrierKey& key, const CohortRef& cohort);

  /// Removes a session that has ended and returns what it took part in. Its cohorts count it as
  /// departed.
  std::optional<Participant> leave(const SessionId& session);

  const Participant* find(const SessionId& session) const;
  /// Returns the sessions that take part in any barrier, in no particular order.
  std::vector<SessionId> sessions() const;

 private:
  void drop_if_idle(const SessionId& session);

  std::unordered_map<SessionId, Participant, SessionIdHash> participants_;  // looked up only
};

}  // namespace c10dd::core
