// SPDX-License-Identifier: Apache-2.0
// The way of answers to the connections of their sessions, also from one loop to another.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "daemon/core/effects.h"
#include "daemon/core/host/host_loop.h"

namespace c10dd::core {

/// Where the answers of a session go: its connection. Called on the loop of whoever holds it.
class ReplySink {
 public:
  virtual ~ReplySink() = default;
  virtual void deliver(std::uint32_t channel, const OutgoingReply& reply, const Stamp& stamp) = 0;
  /// The session on this channel is over; later requests on it are refused.
  virtual void end_session(std::uint32_t channel, const Failure& reason) = 0;
  /// The end of a turn in which something was delivered.
  virtual void flush() = 0;
  /// The connection that this is, or stands for.
  virtual const void* connection() const { return this; }
};

/// Stands for a connection on the loop of another host: the answers of a session whose job lives
/// there are posted to the connection's loop, in order, once per turn.
class RemoteSink final : public ReplySink {
 public:
  /// home: the connection, which is touched on its own loop only.
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
