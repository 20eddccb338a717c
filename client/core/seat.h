// SPDX-License-Identifier: Apache-2.0
// Where a process stands among its peers, when its launcher or ClientOptions have said so: what
// barriers, exchanges, process groups and joins take from it when the caller says nothing. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "protocol/error.h"

namespace c10dd::client {

/// -1: nobody has said so.
struct Seat {
  std::int64_t rank = -1;
  std::int64_t world_size = -1;
};

struct SeatInBarrier {
  Rank rank = 0;
  std::uint32_t world_size = 0;
};

/// invalid_argument when the launcher has not said it. `what` asks for it: "barrier \"start\"".
Result<SeatInBarrier> known_seat(const Seat& seat, const std::string& what);

/// Rank and world size of a barrier: those asked for, or with a size of 0 the launcher's.
Result<SeatInBarrier> seat_in_barrier(const Seat& seat, const std::string& what, Rank asked,
                                      std::uint32_t asked_size);

/// The rank that a join claims: the one asked for, else the launcher's where the group is exactly
/// the launcher's world, else -1 (the daemon assigns one).
std::int64_t requested_rank(const Seat& seat, std::int64_t asked, std::uint32_t min,
                            std::uint32_t max);

}  // namespace c10dd::client
