// SPDX-License-Identifier: Apache-2.0
// Charges sessions for what they keep for retries.
#include "daemon/core/sessions/sessions.h"

namespace c10dd::core {

void Sessions::charge_replies(Session& session) {
  const std::size_t blocks = session.replies.size() / kReplyBlock;
  const std::size_t bytes = kSessionBytes + blocks * kReplyBlock * kReplyBytes;
  if (bytes != session.charge.bytes()) session.charge.set(bytes);
}

std::optional<Failure> Sessions::check_keep(const Session& session, const Allowance& allowance) {
  const bool new_block = session.replies.size() % kReplyBlock == kReplyBlock - 1;
  if (!new_block && session.deliveries.empty()) return std::nullopt;
  return allowance.refuses((new_block ? kReplyBlock * kReplyBytes : 0) + kDeliveryBytes,
                           "one more unacknowledged reply of this session");
}

std::size_t Sessions::charged() const {
  std::size_t bytes = 0;
  for (const auto& [id, session] : sessions_) {
    bytes += session.charge.bytes();
    for (const auto& [sequence, delivery] : session.deliveries) bytes += delivery.charge.bytes();
  }
  return bytes;
}

}  // namespace c10dd::core
