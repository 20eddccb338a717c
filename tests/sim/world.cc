// SPDX-License-Identifier: Apache-2.0
// A queue of events and a clock that jumps to the next one.
#include "tests/sim/world.h"

#include <algorithm>

namespace c10dd::sim {
namespace {

constexpr std::uint64_t kEventsMost = 10'000'000;  // with more, a run does not end

}  // namespace

void World::at(TimePoint when, std::function<void()> what) {
  events_.push({std::max(when, now_), ++number_, std::move(what)});
}

bool World::step(TimePoint end) {
  if (events_.empty() || events_.top().when > end) {
    now_ = std::max(now_, end);
    return false;
  }
  // The queue gives only constant access; the event is removed below.
  const auto what = std::move(const_cast<Event&>(events_.top()).what);
  now_ = events_.top().when;
  events_.pop();
  what();
  if (number_ > kEventsMost) violated("liveness", "events without end");
  return true;
}

void World::violated(const char* oracle, std::string text) {
  note("VIOLATION", 0, 0, text);
  if (!violation_) violation_ = Violation{oracle, std::move(text)};
}

}  // namespace c10dd::sim
