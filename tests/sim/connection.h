// SPDX-License-Identifier: Apache-2.0
// The daemon's end of a link: cuts frames for the product's channels, and sends their replies.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/core/host/native_channels.h"
#include "tests/sim/network.h"
#include "tests/sim/records.h"

namespace c10dd::sim {

class Shard;

class Connection final : public core::NativeConnection {
 public:
  Connection(Shard& shard, World& world, Records& records, LinkRef link);

  void read(std::string_view bytes);
  /// Ends the connection, because the link is closed.
  void close();
  const LinkRef& link() const { return link_; }

  void deliver(std::uint32_t channel, const core::OutgoingReply& reply,
               const Stamp& stamp) override {
    channels_.deliver(channel, reply, stamp);
  }
  void end_session(std::uint32_t channel, const Failure& reason) override;
  void flush() override {}

 private:
  void send(const native::ReplyHeader& header, const Reply& reply) override;
  void refuse_bytes(const native::RequestHeader& header, const Failure& reason) override;
  void taken(const OpInfo& op) override;
  Result<core::Caller> authenticate(const std::string& credential, const std::string& job) override;
  void unknown_op() override {}

  void take_frame(const core::NativeChannels::Frame& frame);
  void note_credential(std::uint32_t channel, const Request& request);
  void look_again();
  void check_told(std::uint32_t channel, const Reply& reply, std::uint8_t op);

  Shard& shard_;
  World& world_;
  Records& records_;
  LinkRef link_;
  core::NativeChannels channels_;
  Bytes in_;
  bool closed_ = false;
  /// What a client has shown on a channel, and of which job it speaks.
  struct Shown {
    std::string job;
    std::vector<std::string> tokens;
  };
  std::map<std::uint32_t, Shown> shown_;
  bool looks_ = false;  ///< asks again and again who the clients are
  std::optional<TimePoint>
      look_due_;  ///< a look that the daemon, which may be paused, has not taken
  std::map<std::uint32_t, SessionId> sessions_;  ///< named by the hellos, by channel
  std::map<std::uint32_t, std::set<std::pair<std::uint64_t, std::uint8_t>>> asked_;  ///< unanswered
};

}  // namespace c10dd::sim
