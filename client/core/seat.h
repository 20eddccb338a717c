// SPDX-License-Identifier: Apache-2.0
// The rank and world size of a process, as its launcher or ClientOptions give them. Barriers,
// exchanges, process groups and joins use them if the caller gives none. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "protocol/error.h"

namespace c10dd::client {

/// What the launcher or ClientOptions give; -1: not known.
struct Seat {
  std::int64_t rank = -1;
  std::int64_t world_size = -1;
};

/// The rank and the number of ranks of one barrier or exchange.
struct SeatInBarrier {
  Rank rank = 0;
  std::uint32_t world_size = 0;
};

/// Returns the launcher's rank and world size. Fails with invalid_argument if either is not known.
/// `what` starts the error text: "barrier \"start\"".
Result<SeatInBarrier> known_seat(const Seat& seat, const std::string& what);

/// Returns the rank and world size of a barrier: those given, or the launcher's if the given size
/// is 0. Fails with invalid_argument if a rank is given without a size, and as known_seat() does.
Result<SeatInBarrier> seat_in_barrier(const Seat& seat, const std::string& what, Rank asked,
                                      std::uint32_t asked_size);

/// Returns the rank that a join requests: the one given, else the launcher's if `min` and `max` are
/// the launcher's world size, else -1 (the daemon assigns one).
std::int64_t requested_rank(const Seat& seat, std::int64_t asked, std::uint32_t min,
                            std::uint32_t max);

}  // namespace c10dd::client
