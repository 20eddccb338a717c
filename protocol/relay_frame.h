// SPDX-License-Identifier: Apache-2.0
// The first frame of a connection between two daemons of a fleet, on which one of them, the relay,
// passes on the bytes of a TCPStore client to the other, the owner of the job of the listener on
// which the client has connected. Does no I/O. Grammar: PROTOCOL.md.
#pragma once

#include <boost/describe/class.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "protocol/error.h"
#include "protocol/tcpstore_wire.h"
#include "protocol/types.h"

namespace c10dd::native {

/// Op code of the frame. It is not an operation: clients cannot use it.
inline constexpr std::uint8_t kRelayOp = 0xD0;

/// Random bits of a daemon that only the daemons of its fleet can read. A secret: no page and no
/// log shows it.
struct RelayKey {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  /// Returns false for the key of a daemon that takes no connections from relays.
  bool is_set() const { return (high | low) != 0; }
  /// Takes the same time for all keys.
  bool operator==(const RelayKey& other) const {
    return ((high ^ other.high) | (low ^ other.low)) == 0;
  }
};
BOOST_DESCRIBE_STRUCT(RelayKey, (), (high, low))

struct RelayFrame {
  RelayKey key;      ///< of the owner: proves that the sender is a daemon of its fleet
  std::string peer;  ///< host:port of the client
  // The settings of the listener.
  std::string job;
  std::string run;  ///< empty: each launch has a run of its own
  tcpstore::LegacyClients legacy = tcpstore::LegacyClients::detect;
};
BOOST_DESCRIBE_STRUCT(RelayFrame, (), (key, peer, job, run, legacy))

/// Returns the first bytes of the connection: the magic bytes and the frame.
Bytes encode_relay(const RelayFrame& frame);

/// Decodes the body of the frame. Fails with `malformed` if it is none that a daemon sends.
Result<RelayFrame> decode_relay(std::string_view body);

/// What the owner replies. After a success, the connection carries the bytes of the client.
struct RelayReply {
  std::size_t size = 0;  ///< of the reply, in bytes
  Result<void> taken = {};
};

Bytes encode_relay_reply(const Result<void>& taken);
/// Returns the reply at the start of `in`, or nothing if it is incomplete. Fails with `malformed`
/// or too_large if no owner sends these bytes.
Result<std::optional<RelayReply>> cut_relay_reply(std::string_view in);

}  // namespace c10dd::native
