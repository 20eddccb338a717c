// SPDX-License-Identifier: Apache-2.0
// An entry of the table of operations (ops.h) and its enumerations.
#pragma once

#include <cstdint>
#include <string_view>

namespace c10dd {

enum class OpKind : std::uint8_t {
  read,   ///< has no effect; answered at once
  write,  ///< changes rows; answered when they are durable
  wait,   ///< may block until its time-out
  event,  ///< changes nothing durable
};

/// The right that a principal needs for an operation.
enum class Access : std::uint8_t { observe, use, join, admin };

/// How a repeated request is recognised.
enum class Dedup : std::uint8_t {
  none,      ///< a repeat is harmless
  reply,     ///< the reply is stored with the effect, under session and sequence
  delivery,  ///< as reply, but the stored row names the queue's item; the item is the reply
  arrival,   ///< keyed by name, generation, sequence and rank; a repeat re-attaches
};

/// How much an operation can let the state grow. Decides what is refused while room is short.
enum class Growth : std::uint8_t {
  none,    ///< reads; removals and pops, which make room; the end of a session
  needed,  ///< needed by clients to make room themselves: a session, a barrier, a member
  little,  ///< rows of a few bytes that others wait for
  much,    ///< values of any size
};

struct OpInfo {
  std::uint8_t code;
  std::string_view name;
  OpKind kind;
  Access access;
  std::uint8_t since;  ///< first protocol version that has it
  Dedup dedup;
  Growth growth;  ///< the upper bound; growth_of() knows requests that need less
};

}  // namespace c10dd
