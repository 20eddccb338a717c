// SPDX-License-Identifier: Apache-2.0
// Sends the replies of a host: those that commit gates have released, and those to refused hellos.
// The end of the turn flushes the sinks that have got one.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/core/host/host_context.h"

namespace c10dd::core {

class ReplySender {
 public:
  explicit ReplySender(const HostContext& context) : context_(context) {}

  /// Sends the replies that the job's commit gate has released, except to attachments that have
  /// ended. Ends the attachments of sessions that have said goodbye.
  void release(const JobRef& slot);
  /// Sends the reply to a hello that is refused.
  void refuse(const std::shared_ptr<ReplySink>& sink, std::uint32_t channel, std::uint64_t sequence,
              Failure reason);
  /// The same, for a hello whose refusal the gate has held. Ends its attachment.
  void refuse(const JobSlot::Refused& refused, Failure reason);
  /// Flushes the sinks that have got replies.
  void flush() {
    for (const std::shared_ptr<ReplySink>& sink : to_flush_) sink->flush();
    to_flush_.clear();
  }
  void forget() { to_flush_.clear(); }

 private:
  const HostContext& context_;
  std::vector<std::shared_ptr<ReplySink>> to_flush_;  ///< sinks that got replies in this turn
  std::vector<OutgoingReply> spare_replies_;  ///< empty between calls; keeps memory for the next
};

}  // namespace c10dd::core
