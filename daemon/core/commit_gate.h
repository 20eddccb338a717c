// SPDX-License-Identifier: Apache-2.0
// Holds each reply back until the rows that it depends on are durable. A reply waits for the newest
// change that it observed. On an engine that several daemons share, a read also waits for a
// confirmation of ownership that began after the read arrived. Pure: revisions and numbers only.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "daemon/core/effects.h"

namespace c10dd::core {

class CommitGate {
 public:
  /// `start` is the stamp that the job was loaded with; `confirm_reads` is set if several daemons
  /// share the engine.
  CommitGate(Stamp start, bool confirm_reads);

  /// Takes a reply, which take_released() returns when it may leave.
  void hold(OutgoingReply reply);

  /// Returns whether a held reply needs a confirmation that has not begun.
  bool wants_confirmation() const { return !unconfirmed_.empty(); }

  /// Notes that a confirmation begins now. Its number is higher than those before.
  void confirmation_begun(std::uint64_t number);
  /// Notes that the confirmations up to this number have succeeded.
  void confirmed(std::uint64_t number);

  /// Notes that all changes up to this revision are durable.
  void committed(Revision durable);

  /// Returns the replies that may leave now.
  std::vector<OutgoingReply> take_released() { return std::exchange(released_, {}); }

  /// Returns the stamp for the frame headers of replies that leave now.
  const Stamp& stamp() const { return stamp_; }
  std::size_t held() const {
    return by_revision_.size() + unconfirmed_.size() + confirming_.size();
  }

 private:
  void release_if_durable(OutgoingReply reply);

  Stamp stamp_;
  bool confirm_reads_;
  std::deque<OutgoingReply> unconfirmed_;
  std::deque<std::pair<std::uint64_t, OutgoingReply>> confirming_;
  std::multimap<Revision, OutgoingReply> by_revision_;
  std::vector<OutgoingReply> released_;
};

}  // namespace c10dd::core
