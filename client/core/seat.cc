// SPDX-License-Identifier: Apache-2.0
#include "client/core/seat.h"

#include "protocol/format.h"
#include "protocol/limits.h"

namespace c10dd::client {

Result<void> check_seat(const Seat& seat) {
  const auto refused = [](const char* name, std::int64_t value) {
    return failure(Code::invalid_argument, "{} is {}: give -1 if it is not known, or {} and more",
                   name, value, name[0] == 'r' ? 0 : 1);
  };
  if (seat.rank < -1) return refused("rank", seat.rank);
  if (seat.world_size < -1 || seat.world_size == 0) return refused("world_size", seat.world_size);
  if (seat.world_size > limits::kWorldSize) {
    return failure(Code::invalid_argument, "world_size is {}, limit {}", seat.world_size,
                   limits::kWorldSize);
  }
  if (seat.world_size == -1 || seat.rank < seat.world_size) return {};
  return failure(Code::invalid_argument, "rank is {}, but world_size is {}: ranks go from 0 to {}",
                 seat.rank, seat.world_size, seat.world_size - 1);
}

Result<SeatInBarrier> known_seat(const Seat& seat, const std::string& what) {
  if (seat.rank >= 0 && seat.world_size > 0) {
    return SeatInBarrier{static_cast<Rank>(seat.rank), static_cast<std::uint32_t>(seat.world_size)};
  }
  return failure(Code::invalid_argument,
                 "{}: this client has no {}: give rank and world size in this call or when "
                 "connecting, or start the process with a launcher and connect as the environment "
                 "says{}",
                 what, seat.rank < 0 ? "rank" : "world size",
                 seat.launcher.empty() ? "" : "; " + seat.launcher);
}

Result<SeatInBarrier> seat_in_barrier(const Seat& seat, const std::string& what, Rank asked,
                                      std::uint32_t asked_size) {
  if (asked_size > 0) return SeatInBarrier{asked, asked_size};
  if (asked == 0) return known_seat(seat, what);
  return failure(Code::invalid_argument, "{}: rank {} without a world size; give both or neither",
                 what, asked);
}

std::int64_t requested_rank(const Seat& seat, std::int64_t asked, std::uint32_t min,
                            std::uint32_t max) {
  const bool whole_world = min == max && static_cast<std::int64_t>(max) == seat.world_size;
  return asked < 0 && whole_world ? seat.rank : asked;
}

}  // namespace c10dd::client
