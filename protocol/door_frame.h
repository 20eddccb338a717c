// SPDX-License-Identifier: Apache-2.0
// The first frame of a connection between two daemons of a fleet, on which one of them, the door,
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

/// Op code of the frame. It is no operation: clients cannot use it.
inline constexpr std::uint8_t kDoorOp = 0xD0;

/// Random bits of a daemon that only the daemons of its fleet can read. A secret: no page and no
/// log shows it.
struct DoorKey {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  /// Returns false for the key of a daemon that takes no connections from doors.
  bool is_set() const { return (high | low) != 0; }
  /// Takes the same time for all keys.
  bool operator==(const DoorKey& other) const {
    return ((high ^ other.high) | (low ^ other.low)) == 0;
  }
};
BOOST_DESCRIBE_STRUCT(DoorKey, (), (high, low))

struct DoorFrame {
  DoorKey key;       ///< of the owner: proves that the sender is a daemon of its fleet
  std::string peer;  ///< host:port of the client
  // The settings of the listener.
  std::string job;
  std::string run;  ///< empty: each launch has a run of its own
  tcpstore::LegacyClients legacy = tcpstore::LegacyClients::detect;
};
BOOST_DESCRIBE_STRUCT(DoorFrame, (), (key, peer, job, run, legacy))

/// Returns the first bytes of the connection: the magic bytes and the frame.
Bytes encode_door(const DoorFrame& frame);

/// Decodes the body of the frame. Fails with `malformed` if it is none that a daemon sends.
Result<DoorFrame> decode_door(std::string_view body);

/// What the owner replies. After a success, the connection carries the bytes of the client.
struct DoorReply {
  std::size_t size = 0;  ///< of the reply, in bytes
  Result<void> taken = {};
};

Bytes encode_door_reply(const Result<void>& taken);
/// Returns the reply at the start of `in`, or nothing if it is incomplete. Fails with `malformed`
/// or too_large if no owner sends these bytes.
Result<std::optional<DoorReply>> cut_door_reply(std::string_view in);

}  // namespace c10dd::native
