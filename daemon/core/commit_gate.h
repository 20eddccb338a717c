// SPDX-License-Identifier: Apache-2.0
// Nothing that depends on a row leaves before that row is durable. An answer waits for the newest
// change that it observed; on a shared engine a read also waits for a confirmation of ownership
// that began after it arrived. Pure: revisions and batch numbers only.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "daemon/core/effects.h"

namespace c10dd::core {

class CommitGate {
 public:
  /// confirm_reads: the engine is shared. start: what the job was loaded with.
  CommitGate(Stamp start, bool confirm_reads);

  void hold(OutgoingReply reply);

  /// Whether some held answer needs a confirmation that has not begun.
  bool wants_confirmation() const { return !unconfirmed_.empty(); }

  /// A confirmation with this number begins now; numbers ascend.
  void confirmation_begun(std::uint64_t number);
  void confirmed(std::uint64_t number);

  /// Everything up to this revision is on disk.
  void committed(Revision durable);

  /// The answers that may leave now.
  std::vector<OutgoingReply> take_released() { return std::exchange(released_, {}); }

  /// For the frame headers of what leaves now.
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
