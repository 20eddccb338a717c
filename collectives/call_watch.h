// SPDX-License-Identifier: Apache-2.0
// CallWatch: publishes to the daemon each collective that takes long on this rank. When a
// collective fails, CallWatch asks the daemon which collectives the other ranks are in.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "client/internal/connection.h"
#include "collectives/bootstrap.h"
#include "collectives/hooks.h"
#include "collectives/timer_thread.h"
#include "protocol/error.h"
#include "protocol/ops.h"

namespace c10dd::collectives {

/// Watches the collectives of one process group. Publishes each collective that is still running
/// after half of its time-out, on the timer thread.
class CallWatch final : public Hook, private TimerThread::Task {
 public:
  CallWatch(std::shared_ptr<client::Connection> connection, Rank rank, Rank world_size);
  ~CallWatch() override;

  /// Sets the random number that identifies this process group on all its ranks. `processes` has
  /// the host and process id of each rank, or is empty. Called once, before the first collective.
  void identify(std::uint64_t process_group, std::vector<ProcessAddress> processes);

  void started(const CollectiveCall& call) noexcept override;
  void finished(const CollectiveCall& call) noexcept override;

  /// Asks the daemon which collectives the ranks are in, and adds the answer to `failure`. Leaves
  /// `failure` unchanged if the daemon does not reply in time. Asks at most twice, and waits at
  /// most 0.25 s for each reply. Does not ask if the daemon has not replied to heartbeats in the
  /// last 1.5 s.
  void explain(const CollectiveCall& call, Failure& failure);

 private:
  using Clock = CollectiveCall::Clock;

  Clock::time_point on_time(Clock::time_point now) noexcept override;
  void watch_first_locked();
  void publish_locked(const PublishedCall& call, bool ended);

  const std::shared_ptr<client::Connection> connection_;
  const Rank rank_;
  const Rank world_size_;

  std::optional<std::uint64_t> process_group_;
  std::vector<ProcessAddress> processes_;

  std::mutex mutex_;
  std::vector<const CollectiveCall*> running_;          ///< in the order in which they started
  Clock::time_point due_;                               ///< when to publish the first of them
  Clock::time_point wakes_ = Clock::time_point::max();  ///< when on_time() is called next
  bool published_ = false;                              ///< true if the first of them is published
  std::uint64_t published_in_ = 0;  ///< value of stats().connects at the last publication
};

}  // namespace c10dd::collectives
