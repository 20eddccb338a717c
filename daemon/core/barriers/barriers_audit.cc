// SPDX-License-Identifier: Apache-2.0
// Recounts what the barriers of a job keep, and what is charged for it.
#include "daemon/core/barriers/barriers.h"

namespace c10dd::core {

std::size_t Barriers::charged() const {
  std::size_t bytes = 0;
  for (const auto& [key, barrier] : barriers_) {
    bytes += barrier.charge.bytes();
    for (const auto& [rank, arrival] : barrier.arrivals) bytes += arrival.charge.bytes();
  }
  return bytes;
}

AuditResult Barriers::audit() const {
  std::size_t arrived_bytes = 0;
  std::size_t completed_bytes = 0;
  std::size_t completed = 0;
  std::size_t waiting = 0;
  for (const auto& [key, barrier] : barriers_) {
    for (const auto& [rank, arrival] : barrier.arrivals) {
      for (const Bytes& part : arrival.parts) arrived_bytes += part.size() + sizeof(std::uint32_t);
      const Participation::Participant* participant = participation_.find(arrival.session);
      if (participant == nullptr || !participant->waits.contains(key)) {
        return describe(key) + ": a session that has arrived is not recorded as a participant";
      }
    }
    waiting += waiting_.contains(key) && !barrier.absent.empty() ? 1 : 0;
    if (!barrier.complete) continue;
    ++completed;
    completed_bytes += barrier.bytes();
  }
  return first_difference(
      {differ("bytes of arrivals", arrived_bytes_, arrived_bytes),
       differ("bytes of outcomes", completed_bytes_, completed_bytes),
       differ("outcomes", completed_.size(), completed),
       differ("unfinished barriers", unfinished_.size(), barriers_.size() - completed),
       differ("barriers that wait for a connection", waiting_.size(), waiting)});
}

}  // namespace c10dd::core
