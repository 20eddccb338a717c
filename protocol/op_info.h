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

/// How a repeated request is recognised.
enum class Dedup : std::uint8_t {
  none,      ///< a repeat is harmless
  reply,     ///< the reply is stored together with the effect, by session and sequence
  delivery,  ///< as `reply`, but the stored row names the queue item, which is the reply
  arrival,   ///< the arrival is stored; a repeated request continues the same wait
};

/// How much an operation lets the state grow: decides what is refused if memory or disk is short.
enum class Growth : std::uint8_t {
  none,    ///< reads; removals and pops, which make room; the end of a session
  needed,  ///< clients need it so that they can make room: a session, a barrier, a member
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
