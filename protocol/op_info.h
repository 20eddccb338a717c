// SPDX-License-Identifier: Apache-2.0
// Defines an entry of the table of operations (ops.h), and the types of its fields.
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
  delivery,  ///< the daemon stores which queue item it gave to which request
  arrival,   ///< the daemon stores the arrival; a repeated request continues the same wait
};

/// Says how much an operation adds to the state. If disk space is short, `much` is refused first.
enum class Growth : std::uint8_t {
  none,    ///< adds nothing (a read), or frees space (a removal, a pop, the end of a session)
  needed,  ///< adds a session, a barrier or a member: clients need one of these to free space
  little,  ///< adds rows of a few bytes; other clients wait for these rows
  much,    ///< adds values of any size
};

struct OpInfo {
  std::uint8_t code;
  std::string_view name;
  OpKind kind;
  Access access;
  std::uint8_t since;  ///< first protocol version that has the operation
  Dedup dedup;
  Growth growth;  ///< largest growth of any request; growth_of() returns the growth of one request
};

}  // namespace c10dd
