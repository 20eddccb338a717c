// SPDX-License-Identifier: Apache-2.0
// Refuses requests that let the state grow while the disk or the memory has no room for it. A
// refusal is definite: the request was not applied. One gate serves all hosts of a daemon.
// Thread-safe without locks, except watch().
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "protocol/error.h"
#include "protocol/ops.h"

namespace c10dd::core {

/// Returns how much a request lets the state grow, which may be less than OpInfo::growth, the most
/// that its operation can.
Growth growth_of(const Request& request);

/// What the disk of the state has room for: `enough` for every request; `little`: not for
/// Growth::much; `none`: not for Growth::little either.
enum class DiskRoom : std::uint8_t { enough, little, none };

class GrowthGate {
 public:
  /// max_bytes: the limit for all jobs together, in memory, in bytes.
  explicit GrowthGate(std::uint64_t max_bytes) : max_bytes_(max_bytes) {}

  /// Returns why the request must not be applied now: disk_full or quota_exceeded, with the value
  /// and the limit. Empty if it may be applied.
  std::optional<Failure> refuses(const Request& request) const;

  /// Adds the change of a job's size in memory, in bytes; negative when it shrinks.
  void add_bytes(std::int64_t difference) { bytes_ += difference; }
  std::uint64_t bytes() const;
  std::uint64_t max_bytes() const { return max_bytes_; }

  /// Sets the limits for free bytes: room() is `little` below `reserve`, `none` below `minimum`.
  /// `what` names the disk in texts. Without this call the disk always has enough room.
  /// Not thread-safe: called before the threads of the daemon start.
  void watch(std::string what, std::uint64_t reserve, std::uint64_t minimum);
  /// Sets the free bytes of the disk, as measured now. `needed`: how many of them the engine needs
  /// to erase removed rows for good; growth leaves at least so many free, however small the
  /// reserve.
  void set_free(std::uint64_t free, std::uint64_t needed = 0);
  /// Counts bytes that were handed to the engine since set_free().
  void add_written(std::uint64_t bytes) { written_ += bytes; }
  DiskRoom room() const;
  /// Returns one sentence about the free space and its limit; empty if there is enough.
  std::string disk_note() const;

 private:
  std::uint64_t free() const;
  std::uint64_t kept() const;

  const std::uint64_t max_bytes_;
  std::string what_;
  std::uint64_t reserve_ = 0;
  std::uint64_t minimum_ = 0;
  std::atomic<std::int64_t> bytes_ = 0;
  std::atomic<std::uint64_t> free_ = UINT64_MAX;
  std::atomic<std::uint64_t> needed_ = 0;
  std::atomic<std::uint64_t> written_ = 0;
};

}  // namespace c10dd::core
