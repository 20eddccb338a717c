// SPDX-License-Identifier: Apache-2.0
// What the table of operations says of each one.
#pragma once

#include <cstdint>
#include <string_view>

namespace c10dd {

enum class OpKind : std::uint8_t {
  read,   ///< no effect, answered at once
  write,  ///< changes rows; answered when they are durable
  wait,   ///< may block until its time-out
  event,  ///< changes nothing durable
};

/// What a principal must be allowed to do for an operation.
enum class Access : std::uint8_t { observe, use, join, admin };

/// How a repeated request is recognised.
enum class Dedup : std::uint8_t {
  none,      ///< repeating it is harmless
  reply,     ///< the reply is stored with the effect, by session and sequence
  delivery,  ///< as reply, but what is stored names the queue's item, which is the reply
  arrival,   ///< keyed by name, generation, sequence and rank; a repeat re-attaches
};

/// How much an operation can let the state grow: decides what is refused while room is short.
enum class Growth : std::uint8_t {
  none,    ///< reads; removals and pops, which make room; what ends a session
  needed,  ///< what clients need to make room themselves: a session, a barrier, a member
  little,  ///< rows of a few bytes that others wait for
  much,
};

struct OpInfo {
  std::uint8_t code;
  std::string_view name;
  OpKind kind;
  Access access;
  std::uint8_t since;  ///< first protocol version that has it
  Dedup dedup;
  Growth growth;  ///< the most; of some requests it is less, see growth_of()
};

}  // namespace c10dd
