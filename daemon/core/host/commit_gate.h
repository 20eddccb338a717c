// SPDX-License-Identifier: Apache-2.0
// Holds each reply back until the rows that it depends on are durable. A reply waits for the newest
// change that it observed. If several daemons share the engine, a read also waits for a
// confirmation that this daemon owns the job. The confirmation must begin after the read arrived.
// The gate handles only revisions and numbers; it does no I/O.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "daemon/core/effects.h"

namespace c10dd::core {

class CommitGate {
 public:
  /// `start` is the stamp that the job had when it was loaded. `confirm_reads` must be true if
  /// several daemons share the engine.
  CommitGate(Stamp start, bool confirm_reads);

  /// Stores a reply. take_released() returns the reply when it may be sent.
  void hold(OutgoingReply&& reply);

  /// Returns whether a held reply waits for a confirmation that has not begun.
  bool wants_confirmation() const { return !unconfirmed_.empty(); }

  /// Notes that the confirmation with this number begins now. Numbers increase from call to call.
  void confirmation_begun(std::uint64_t number);
  /// Notes that all confirmations up to this number have succeeded.
  void confirmed(std::uint64_t number);

  /// Notes that all changes up to this revision are durable.
  void committed(Revision durable);

  /// Moves the replies that may be sent now to `into`, which must be empty. The gate keeps the
  /// memory of `into` for the next replies.
  void take_released(std::vector<OutgoingReply>& into) { released_.swap(into); }

  /// Returns the stamp that replies carry in their frame headers if they are sent now.
  const Stamp& stamp() const { return stamp_; }
  std::size_t held() const {
    return by_revision_.size() + unconfirmed_.size() + confirming_.size();
  }

 private:
  void release_if_durable(OutgoingReply&& reply);

  Stamp stamp_;
  bool confirm_reads_;
  std::deque<OutgoingReply> unconfirmed_;
  std::deque<std::pair<std::uint64_t, OutgoingReply>> confirming_;
  std::multimap<Revision, OutgoingReply> by_revision_;
  std::vector<OutgoingReply> released_;
};

}  // namespace c10dd::core
