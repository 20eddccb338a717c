// SPDX-License-Identifier: Apache-2.0
// While the disk or the memory has no room, refuses requests that would let the state grow. A
// refusal is definite: the request was not applied. One gate serves all hosts of a daemon. All
// functions except watch() are thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "daemon/core/memory_ledger.h"
#include "protocol/error.h"
#include "protocol/ops.h"

namespace c10dd::core {

/// Returns how much this request can make the state grow. OpInfo::growth is the maximum over all
/// requests of an operation; a single request may need less.
Growth growth_of(const Request& request);

/// Tells which requests the free disk space allows. `enough` allows all requests. `little` refuses
/// requests of Growth::much. `none` refuses requests of Growth::little and Growth::much.
enum class DiskRoom : std::uint8_t { enough, little, none };

class GrowthGate {
 public:
  /// max_bytes: the limit for the memory of all jobs together, in bytes.
  explicit GrowthGate(std::uint64_t max_bytes) : memory_(max_bytes) {}

  /// If the request must not be applied now, returns the failure: disk_full or quota_exceeded, with
  /// the value and the limit. Otherwise returns nothing. Set `stored` to false if no row of the
  /// request's job is stored, so that the disk does not matter.
  std::optional<Failure> refuses(const Request& request, bool stored = true) const;

  MemoryLedger& memory() { return memory_; }
  const MemoryLedger& memory() const { return memory_; }
  /// Returns true if less than a sixteenth of the memory is left: what nobody needs must go.
  bool is_nearly_full() const {
    return memory_.counted() > memory_.max_bytes() - memory_.max_bytes() / 16;
  }

  /// Sets the limits for the free bytes: room() is `little` if fewer than `reserve` bytes are free,
  /// and `none` if fewer than `minimum` are free. `what` names the disk in texts. If watch() is
  /// never called, room() is always `enough`.
  /// Not thread-safe: called before the threads of the daemon start.
  void watch(std::string what, std::uint64_t reserve, std::uint64_t minimum);
  /// Sets the number of free bytes on the disk. `needed` is how many free bytes the engine needs to
  /// reclaim the space of removed rows, or 0. If `needed` is not 0, room() is also `little` if
  /// fewer bytes are free than `needed` plus the bytes that add_written() has counted.
  void set_free(std::uint64_t free, std::uint64_t needed = 0);
  /// Counts bytes that were handed to the engine since set_free().
  void add_written(std::uint64_t bytes) { written_ += bytes; }
  DiskRoom room() const;
  /// Returns one sentence about the free space and its limit; empty if room() is `enough`.
  std::string disk_note() const;

 private:
  std::uint64_t free() const;
  std::uint64_t kept() const;

  MemoryLedger memory_;
  std::string what_;
  std::uint64_t reserve_ = 0;
  std::uint64_t minimum_ = 0;
  std::atomic<std::uint64_t> free_ = UINT64_MAX;
  std::atomic<std::uint64_t> needed_ = 0;
  std::atomic<std::uint64_t> written_ = 0;
};

}  // namespace c10dd::core
