// SPDX-License-Identifier: Apache-2.0
// Replies wait for a confirmation first (if they need one), then until their revision is durable.
#include "daemon/core/host/commit_gate.h"

namespace c10dd::core {

CommitGate::CommitGate(Stamp start, bool confirm_reads)
    : stamp_(start), confirm_reads_(confirm_reads) {}

void CommitGate::hold(OutgoingReply&& reply) {
  // A reply that waits for the commit of its request's own change needs no confirmation, because
  // that commit will prove that this daemon owns the job. A change that is already durable does not
  // prove that this daemon is still the owner.
  const bool own_commit =
      reply.evidence == Evidence::own_commit && reply.observed > stamp_.revision;
  if (confirm_reads_ && !own_commit && reply.evidence != Evidence::none) {
    unconfirmed_.push_back(std::move(reply));
  } else {
    release_if_durable(std::move(reply));
  }
}

void CommitGate::confirmation_begun(std::uint64_t number) {
  for (OutgoingReply& reply : unconfirmed_) confirming_.emplace_back(number, std::move(reply));
  unconfirmed_.clear();
}

void CommitGate::confirmed(std::uint64_t number) {
  while (!confirming_.empty() && confirming_.front().first <= number) {
    release_if_durable(std::move(confirming_.front().second));
    confirming_.pop_front();
  }
}

void CommitGate::committed(Revision durable) {
  stamp_.revision = std::max(stamp_.revision, durable);
  if (by_revision_.empty()) return;
  const auto end = by_revision_.upper_bound(stamp_.revision);
  for (auto it = by_revision_.begin(); it != end; it = by_revision_.erase(it)) {
    released_.push_back(std::move(it->second));
  }
}

void CommitGate::release_if_durable(OutgoingReply&& reply) {
  if (reply.observed <= stamp_.revision) {
    released_.push_back(std::move(reply));
  } else {
    const Revision needs = reply.observed;
    // Replies mostly come in ascending order of revisions.
    by_revision_.emplace_hint(by_revision_.end(), needs, std::move(reply));
  }
}

}  // namespace c10dd::core
