// SPDX-License-Identifier: Apache-2.0
// A process with one event loop: calls wait in an inbox, a turn runs all of them, then
// end_turn() runs. It can be paused (the inbox fills) and killed (nothing of it runs again).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tests/sim/world.h"

namespace c10dd::sim {

class Process : public std::enable_shared_from_this<Process> {
 public:
  Process(World& world, DriftingClock clock) : world_(world), clock_(clock) {}
  virtual ~Process() = default;
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  /// Runs f in the next turn, unless the process dies before.
  void post(std::function<void()> f) {
    if (dead_) return;
    inbox_.push_back(std::move(f));
    wake_at(world_.now() + world_.random.skewed(Duration(1'000), std::chrono::microseconds(500)));
  }

  void pause(Duration how_long) { paused_until_ = world_.now() + how_long; }
  void resume() {
    paused_until_ = world_.now();
    if (!dead_) wake_at(world_.now());
  }
  bool paused() const { return world_.now() < paused_until_; }

  virtual void kill() {
    dead_ = true;
    inbox_.clear();
  }
  bool dead() const { return dead_; }

  /// Returns true while a turn of the process runs.
  bool in_turn() const { return in_turn_; }

 protected:
  /// Ends a turn, after the inbox was emptied.
  virtual void end_turn() = 0;

  TimePoint local_now() const { return clock_.local(world_.now()); }
  TimePoint world_time(TimePoint local) const { return clock_.world(local); }
  void wake_at_local(TimePoint at) { wake_at(clock_.world(at)); }

  /// Requests a turn no later than this, unless the process is paused.
  void wake_at(TimePoint when) {
    when = std::max({when, paused_until_, world_.now()});
    if (scheduled_ && *scheduled_ <= when) return;
    scheduled_ = when;
    world_.at(when, [weak = weak_from_this(), when, this] {
      const auto self = weak.lock();
      if (!self || dead_ || scheduled_ != when) return;
      scheduled_.reset();
      if (paused()) return wake_at(paused_until_);
      in_turn_ = true;
      for (auto& f : std::exchange(inbox_, {})) {
        if (!dead_) f();
      }
      if (!dead_) end_turn();
      in_turn_ = false;
    });
  }

  World& world_;

 private:
  DriftingClock clock_;
  std::vector<std::function<void()>> inbox_;
  std::optional<TimePoint> scheduled_;
  TimePoint paused_until_;
  bool dead_ = false;
  bool in_turn_ = false;
};

}  // namespace c10dd::sim
