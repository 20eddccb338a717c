// SPDX-License-Identifier: Apache-2.0
// Records which sessions take part in which barriers and exchanges of a job: for each session, its
// cohorts (see Cohort) and the unfinished barriers at which it has arrived.
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

/// Tells which sessions of a set are connected, and how long to wait for the disconnected ones.
struct Turnout {
  std::size_t present = 0;
  std::vector<Rank> ranks;         ///< the first limits::kMissingNamed ranks that are present
  std::optional<SessionId> first;  ///< the session of the first rank that is present
  /// Of the sessions that are away (see Presence), the one that counts as gone last. Empty if no
  /// session is away.
  std::optional<SessionId> absent;
  TimePoint gone_at;  ///< the time at which `absent` counts as gone
};

/// Lists by rank the sessions that arrived at a finished barrier. Outcomes with the same sessions
/// share one cohort. Without sharing, a job would need one list for each training step.
struct Cohort {
  std::vector<SessionId> sessions;  ///< zero for a rank that had not arrived when the barrier broke
  bool broken = false;              ///< true: all outcomes are broken; false: all are released
  std::set<BarrierKey> outcomes;    ///< keys of the outcomes that the job still keeps
  std::size_t departed = 0;         ///< number of ranks whose sessions have ended
  Turnout turnout;                  ///< as Relaunch last saw it
  std::uint64_t turnout_at = 0;     ///< Barriers::presence_changes() when `turnout` was computed

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
    /// The session's cohorts, each with the number of its ranks that belong to the session.
    std::vector<std::pair<CohortRef, std::size_t>> cohorts;
  };

  void arrived(const SessionId& session, const BarrierKey& key) {
    participants_[session].waits.insert(key);
  }
  void withdrew(const SessionId& session, const BarrierKey& key);

  /// Notes that a barrier has an outcome. Returns the cohort of the barrier's sessions. This cohort
  /// is `like` if `like` has the same sessions and the same `broken`, and `like->departed` is 0.
  CohortRef finished(const BarrierKey& key, std::vector<SessionId> sessions, bool broken,
                     const CohortRef& like);

  /// Notes that an outcome was dropped.
  void forgotten(const BarrierKey& key, const CohortRef& cohort);

  /// Removes a session that has ended, and adds its ranks to `departed` of its cohorts. Returns the
  /// barriers and cohorts to which the session belonged.
  std::optional<Participant> leave(const SessionId& session);

  const Participant* find(const SessionId& session) const;
  /// Returns the sessions that take part in any barrier, in no particular order.
  std::vector<SessionId> sessions() const;

 private:
  void drop_if_idle(const SessionId& session);

  std::unordered_map<SessionId, Participant, SessionIdHash> participants_;  // looked up only
};

}  // namespace c10dd::core
