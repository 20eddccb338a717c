// SPDX-License-Identifier: Apache-2.0
// An entry of the table of operations (ops.h) and its enumerations.
#pragma once

#include <cstdint>
#include <string_view>

namespace c10dd {

enum class OpKind : std::uint8_t {
  read,   ///< has no effect; answered at once
  write,  ///< changes rows; answered after the change is durable
  wait,   ///< may block until its time-out
  event,  ///< changes nothing durable
};

/// The right that a principal needs for an operation.
enum class Access : std::uint8_t { observe, use, join, admin };

/// Selects how the daemon recognises a repeated request.
enum class Dedup : std::uint8_t {
  none,      ///< a repeat is harmless
  reply,     ///< the daemon stores the reply together with the effect of the request
  delivery,  ///< the daemon stores which request has got which queue item
  arrival,   ///< the daemon stores the arrival; a repeated request continues the same wait
};

/// Ranks operations by how much they add to the state. Decides which fail if room is short.
enum class Growth : std::uint8_t {
  none,    ///< reads, the end of a session, and removals and pops, which make room
  needed,  ///< a session, a barrier or a member, without which clients cannot make room
  little,  ///< rows of a few bytes that other clients wait for
  much,    ///< values of any size
};

struct OpInfo {
  std::uint8_t code;
  std::string_view name;
  OpKind kind;
  Access access;
  std::uint8_t since;  ///< first protocol version that has the operation
  Dedup dedup;
  Growth growth;  ///< upper bound; growth_of() returns less for some requests
};

}  // namespace c10dd
