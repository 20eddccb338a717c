// SPDX-License-Identifier: Apache-2.0
// Basic types of both sides: bytes, time, identities, rows. Standard library only, so that public
// SDK headers may include this file.
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

/// Clock of the pure parts, which get the time as an argument. It has no now(), so they cannot read
/// the time themselves.
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

/// Counts the committed changes of one job; 0 is before the first change. Never reused.
using Revision = std::uint64_t;

/// Number of a job in one engine; 0 is the directory. Never reused.
using JobNumber = std::uint64_t;

/// Counts the owners of a job: each claim raises it. A commit with an older epoch is fenced.
using Epoch = std::uint64_t;

/// Identity of one client, which the client chooses at random. It survives reconnects.
struct SessionId {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  auto operator<=>(const SessionId&) const = default;
};

/// Hash for tables that are only looked up: nothing may depend on their order.
struct SessionIdHash {
  std::size_t operator()(const SessionId& id) const {
    const std::uint64_t both[] = {id.high, id.low};  // clients choose both: hash all bits
    return std::hash<std::string_view>()({reinterpret_cast<const char*>(both), sizeof both});
  }
};

/// Names the state that a reply was read from; every reply carries one in its frame header. A
/// client that presents a stamp newer than the daemon's own state has found a rollback.
struct Stamp {
  std::uint64_t incarnation = 0;  ///< changes only when state was lost or restored
  Epoch epoch = 0;
  Revision revision = 0;  ///< newest durable revision of the job

  auto operator<=>(const Stamp&) const = default;
};

/// One durable key of a job with its new value, or its deletion. Rows of a batch apply in order.
struct Row {
  enum class Kind : std::uint8_t { put, erase, erase_prefix };

  Kind kind = Kind::put;
  Bytes key;
  Bytes value;

  bool operator==(const Row&) const = default;
};

}  // namespace c10dd
