// SPDX-License-Identifier: Apache-2.0
// The end of a daemon on SIGTERM, as daemon/server.cc does it.
#include "tests/sim/daemon.h"

namespace c10dd::sim {
namespace {

constexpr Duration kLookAgain = std::chrono::milliseconds(10);

}  // namespace

void Daemon::drain(Duration timeout, std::function<void()> closed, std::function<void()> ended) {
  world_.note("daemon.drain", number_);
  post([this, timeout, closed = std::move(closed), ended = std::move(ended)]() mutable {
    if (draining_) return;
    closed();
    job_time_ = job_now();
    turn_ended_ = local_now();
    draining_ = true;
    end_when_finished(world_.now() + timeout, std::move(ended));
  });
}

void Daemon::end_when_finished(TimePoint deadline, std::function<void()> ended) {
  bool finished = true;
  for (const auto& [number, slot] : jobs_) {
    if (slot->serving) finished = finished && slot->rows.empty() && slot->gate->held() == 0;
  }
  if (finished || world_.now() >= deadline) {
    die(false);
    return ended();
  }
  world_.after(kLookAgain, [this, self = shared_from_this(), deadline, ended = std::move(ended)] {
    post([=, this] {
      forgive_absence();
      end_when_finished(deadline, ended);
    });
  });
}

/// Who is away from now on finds the door closed: nobody may be given up for that.
void Daemon::forgive_absence() {
  for (auto& [id, facts] : records_.sessions) {
    if (!facts.attached()) facts.is_here(world_.now(), true);
  }
}

}  // namespace c10dd::sim
