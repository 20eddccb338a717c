// SPDX-License-Identifier: Apache-2.0
// The time of a simulation, and its queue of events. One thread, one seed: events at equal times
// happen in the order in which they were scheduled.
#pragma once

#include <functional>
#include <optional>
#include <queue>
#include <string>
#include <vector>

#include "tests/sim/random.h"
#include "tests/sim/trace.h"

namespace c10dd::sim {

/// A broken promise: the oracle that found it, and the evidence.
struct Violation {
  std::string oracle;
  std::string text;
};

class World {
 public:
  explicit World(std::uint64_t seed) : random(seed) {}

  TimePoint now() const { return now_; }
  void at(TimePoint when, std::function<void()> what);
  void after(Duration delay, std::function<void()> what) { at(now_ + delay, std::move(what)); }

  /// Runs the next event. Returns false if there is none up to `end`: then the time is `end`.
  bool step(TimePoint end);

  /// Returns the next number in the total order of events ("happened before").
  std::uint64_t next_order() { return ++order_; }

  void note(const char* what, std::uint64_t a = 0, std::uint64_t b = 0,
            std::string_view detail = {}) {
    trace.note(now_, what, a, b, detail);
  }

  /// Records a violation; only the first one is kept.
  void violated(const char* oracle, std::string text);
  const std::optional<Violation>& violation() const { return violation_; }

  Random random;
  Trace trace;

 private:
  struct Event {
    TimePoint when;
    std::uint64_t number = 0;
    std::function<void()> what;

    bool operator<(const Event& other) const {
      return std::pair(when, number) > std::pair(other.when, other.number);
    }
  };

  TimePoint now_;
  std::uint64_t number_ = 0;
  std::uint64_t order_ = 0;
  std::priority_queue<Event> events_;
  std::optional<Violation> violation_;
};

/// The clock of one machine: has an arbitrary offset and runs a little fast or slow.
class DriftingClock {
 public:
  DriftingClock(Duration offset, std::int64_t parts_per_million)
      : offset_(offset), ppm_(parts_per_million) {}

  TimePoint local(TimePoint world) const {
    const auto since = world.time_since_epoch().count();
    return TimePoint(offset_ + Duration(since + since / 1'000'000 * ppm_));
  }
  /// Returns the earliest time of the world at which local() is not before `at`.
  TimePoint world(TimePoint at) const {
    const auto since = (at.time_since_epoch() - offset_).count();
    TimePoint guess(Duration(since - since / (1'000'000 + ppm_) * ppm_));
    while (local(guess) < at) guess += std::max(at - local(guess), Duration(1));
    return guess;
  }

 private:
  Duration offset_;
  std::int64_t ppm_;
};

}  // namespace c10dd::sim
