// SPDX-License-Identifier: Apache-2.0
// Refuses what would let the state grow while there is no room for it, on the disk or in memory.
// The refusal is definite: the request was not applied. From any thread, without locks.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "protocol/error.h"
#include "protocol/ops.h"

namespace c10dd::core {

/// How much a request lets the state grow; OpInfo::growth is the most that its operation can.
Growth growth_of(const Request& request);

/// What the disk of the state has room for.
enum class DiskRoom : std::uint8_t { enough, little, none };

class GrowthGate {
 public:
  /// of all jobs together, in memory
  explicit GrowthGate(std::uint64_t max_bytes) : max_bytes_(max_bytes) {}

  /// Why the request must not be applied now: disk_full or quota_exceeded with both numbers.
  std::optional<Failure> refuses(const Request& request) const;

  /// A job has grown or shrunk.
  void add_bytes(std::int64_t difference) { bytes_ += difference; }
  std::uint64_t bytes() const;
  std::uint64_t max_bytes() const { return max_bytes_; }

  /// There is a disk with these limits; what: where, for people. Before there are threads.
  void watch(std::string what, std::uint64_t reserve, std::uint64_t minimum);
  /// What the disk has free now, as somebody looked; needed: what the engine needs of that to let
  /// go of what is removed. Growth leaves at least so much, however small the reserve is.
  void set_free(std::uint64_t free, std::uint64_t needed = 0);
  /// Bytes on their way to the disk since then.
  void add_written(std::uint64_t bytes) { written_ += bytes; }
  DiskRoom room() const;
  /// One sentence on the disk; empty when it has room.
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
