// SPDX-License-Identifier: Apache-2.0
// Passes replies from a job's host to a connection, which may be on a different loop.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "daemon/core/effects.h"
#include "daemon/core/host/host_loop.h"

namespace c10dd::core {

/// Takes the replies of a session. A sink is either the session's connection or a RemoteSink. Each
/// sink is called on one loop only: a connection on its own loop, a RemoteSink on the loop of the
/// host that serves the session's job.
class ReplySink {
 public:
  virtual ~ReplySink() = default;
  /// Takes a reply for the session on this channel; flush() sends it.
  virtual void deliver(std::uint32_t channel, const OutgoingReply& reply, const Stamp& stamp) = 0;
  /// Ends the session on this channel, and reports the reason to the client. Later requests on the
  /// channel are refused.
  virtual void end_session(std::uint32_t channel, const Failure& reason) = 0;
  /// Sends the replies that deliver() has taken. Called at the end of a turn.
  virtual void flush() = 0;
  /// Identifies the connection to which the replies go. The pointer may only be compared.
  virtual const void* connection() const { return this; }
};

/// Stands in for a connection on another loop. A host that serves a job calls the RemoteSink on the
/// host's loop. Once per turn, the RemoteSink posts the replies, in order, to the loop of the
/// connection.
class RemoteSink final : public ReplySink {
 public:
  /// `home` is the connection, and `loop` is its loop. The RemoteSink calls `home` only on `loop`.
  RemoteSink(std::shared_ptr<ReplySink> home, HostLoop& loop)
      : home_(std::move(home)), loop_(loop) {}

  void deliver(std::uint32_t channel, const OutgoingReply& reply, const Stamp& stamp) override {
    gathered_.push_back({channel, reply, stamp});
  }

  void end_session(std::uint32_t channel, const Failure& reason) override {
    flush();
    loop_.post([home = home_, channel, reason] { home->end_session(channel, reason); });
  }

  void flush() override {
    if (gathered_.empty()) return;
    loop_.post([home = home_, gathered = std::exchange(gathered_, {})] {
      for (const HeldReply& d : gathered) home->deliver(d.channel, d.reply, d.stamp);
      home->flush();
    });
  }

  const void* connection() const override { return home_.get(); }

 private:
  struct HeldReply {
    std::uint32_t channel;
    OutgoingReply reply;
    Stamp stamp;
  };

  std::shared_ptr<ReplySink> home_;
  HostLoop& loop_;
  std::vector<HeldReply> gathered_;
};

}  // namespace c10dd::core
