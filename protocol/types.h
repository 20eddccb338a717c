// SPDX-License-Identifier: Apache-2.0
// The words that both sides use: time, identities, rows. Standard library only, so that public
// SDK headers may include it.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include <c10dd/language.h>

namespace c10dd {

/// Arbitrary bytes. Keys and values are binary safe.
using Bytes = std::string;

using Duration = std::chrono::nanoseconds;

/// Time as the pure parts see it: an argument, never read by themselves. The tag has no now(), so
/// nobody can ask it for the time.
struct JobClock {
  using duration = Duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<JobClock>;
  static constexpr bool is_steady = true;
};
using TimePoint = JobClock::time_point;

/// Position of a member in its group, 0 .. world size - 1.
using Rank = std::uint32_t;

/// Counts the committed changes of one job; 0 is "before the first". Never reused.
using Revision = std::uint64_t;

/// Number of a job inside one engine; 0 is the directory. Never reused.
using JobNumber = std::uint64_t;

/// Counts the owners of a job: each claim raises it. A commit with an older epoch is fenced.
using Epoch = std::uint64_t;

/// One client identity, chosen at random by the client; it survives reconnects.
struct SessionId {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  auto operator<=>(const SessionId&) const = default;
};

/// For tables that are looked up only: their order is nobody's.
struct SessionIdHash {
  std::size_t operator()(const SessionId& id) const {
    const std::uint64_t both[] = {id.high, id.low};  // clients choose both: all bits count
    return std::hash<std::string_view>()({reinterpret_cast<const char*>(both), sizeof both});
  }
};

/// What every answer carries in its frame header: which state it was read from. A client that
/// presents a stamp newer than the daemon's own state has found a rollback.
struct Stamp {
  std::uint64_t incarnation = 0;  ///< changes only when state was lost or restored
  Epoch epoch = 0;
  Revision revision = 0;  ///< newest durable revision of the job

  auto operator<=>(const Stamp&) const = default;
};

/// One durable key of a job with its new value, or its removal. Rows of a batch apply in order.
struct Row {
  enum class Kind : std::uint8_t { put, erase, erase_prefix };

  Kind kind = Kind::put;
  Bytes key;
  Bytes value;

  bool operator==(const Row&) const = default;
};

}  // namespace c10dd
