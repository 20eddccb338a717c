// SPDX-License-Identifier: Apache-2.0
// Basic types of client and daemon: bytes, time, identities, rows. Uses only the standard library,
// so that public SDK headers may include this file.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include <c10dd/language.h>

namespace c10dd {

/// Arbitrary bytes. Keys and values may contain any byte.
using Bytes = std::string;

using Duration = std::chrono::nanoseconds;

/// A clock without now(). Code that uses this clock gets the time as an argument, and cannot read
/// the time itself.
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

/// Number of a committed change of one job; never reused. 0 is the state before the first change.
using Revision = std::uint64_t;

/// Number of a job in one engine; never reused. 0 is reserved for the daemon's list of all jobs.
using JobNumber = std::uint64_t;

/// Counts the claims and releases of a job. A commit fails unless it has the job's newest epoch.
using Epoch = std::uint64_t;

/// Identity of one client: random bits that the client chooses, and keeps when it reconnects.
struct SessionId {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  auto operator<=>(const SessionId&) const = default;
};

/// Hash for unordered tables. No result may depend on the iteration order of such a table.
/// Clients choose both halves of an id, so all bits count. The multipliers are those of the
/// finalizer of MurmurHash3.
struct SessionIdHash {
  std::size_t operator()(const SessionId& id) const {
    std::uint64_t h = (id.high ^ (id.high >> 33)) * 0xFF51AFD7ED558CCD;
    h = (h ^ id.low ^ (h >> 33)) * 0xC4CEB9FE1A85EC53;
    return static_cast<std::size_t>(h ^ (h >> 33));
  }
};

/// Identifies the state that a reply shows. Each reply has a stamp in its frame header. If a client
/// sends a stamp that is newer than the daemon's state, the state was rolled back.
struct Stamp {
  std::uint64_t incarnation = 0;  ///< changes only after state was lost or restored
  Epoch epoch = 0;
  Revision revision = 0;  ///< newest durable revision of the job

  auto operator<=>(const Stamp&) const = default;
};

/// One change of a job's durable keys: stores a value, erases a key, or erases all keys with a
/// prefix. The rows of a batch apply in order.
struct Row {
  enum class Kind : std::uint8_t { put, erase, erase_prefix };

  Kind kind = Kind::put;
  Bytes key;
  Bytes value;

  bool operator==(const Row&) const = default;
};

}  // namespace c10dd
