// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/barriers/participation.h"

#include <algorithm>

namespace c10dd::core {

void Participation::withdrew(const SessionId& session, const BarrierKey& key) {
  const auto participant = participants_.find(session);
  if (participant == participants_.end()) return;
  participant->second.waits.erase(key);
  drop_if_idle(session);
}

CohortRef Participation::finished(const BarrierKey& key, std::vector<SessionId> sessions,
                                  bool broken, const CohortRef& like) {
  CohortRef cohort = like;
  const bool same =
      like && like->broken == broken && like->departed == 0 && like->sessions == sessions;
  if (!same) {
    cohort = std::make_shared<Cohort>();
    cohort->sessions = std::move(sessions);
    cohort->broken = broken;
  }
  for (const SessionId& session : cohort->sessions) {
    if (session == SessionId{}) continue;
    Participant& participant = participants_[session];
    participant.waits.erase(key);
    if (same) continue;
    if (participant.cohorts.empty() || participant.cohorts.back().first != cohort) {
      participant.cohorts.emplace_back(cohort, 0);
    }
    ++participant.cohorts.back().second;
  }
  cohort->outcomes.insert(key);
  return cohort;
}

void Participation::forgotten(const BarrierKey& key, const CohortRef& cohort) {
  cohort->outcomes.erase(key);
  if (!cohort->outcomes.empty()) return;
  for (const SessionId& session : cohort->sessions) {
    const auto participant = participants_.find(session);
    if (participant == participants_.end()) continue;
    std::erase_if(participant->second.cohorts,
                  [&](const auto& one) { return one.first == cohort; });
    drop_if_idle(session);
  }
}

std::optional<Participation::Participant> Participation::leave(const SessionId& session) {
  auto participant = participants_.extract(session);
  if (participant.empty()) return std::nullopt;
  for (const auto& [cohort, ranks] : participant.mapped().cohorts) cohort->departed += ranks;
  return std::move(participant.mapped());
}

const Participation::Participant* Participation::find(const SessionId& session) const {
  const auto participant = participants_.find(session);
  return participant == participants_.end() ? nullptr : &participant->second;
}

std::vector<SessionId> Participation::sessions() const {
  std::vector<SessionId> sessions;
  for (const auto& [session, participant] : participants_) sessions.push_back(session);
  return sessions;
}

void Participation::drop_if_idle(const SessionId& session) {
  const auto participant = participants_.find(session);
  if (participant->second.waits.empty() && participant->second.cohorts.empty())
    participants_.erase(participant);
}

}  // namespace c10dd::core
