// SPDX-License-Identifier: Apache-2.0
// Tells the daemon which call this rank waits in once it has waited long, and asks it which calls
// the others wait in when one has failed. A thread that sleeps while calls are quick.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "client/internal/connection.h"
#include "collectives/bootstrap.h"
#include "collectives/hooks.h"
#include "protocol/error.h"
#include "protocol/ops.h"

namespace c10dd::collectives {

class CallWatch final : public Hook {
 public:
  CallWatch(std::shared_ptr<client::Connection> connection, Rank rank, Rank world_size);
  ~CallWatch() override;

  /// Before the first call. The ranks of one group share the number. `processes`: where they run,
  /// by rank, or empty.
  void identify(std::uint64_t process_group, std::vector<ProcessAddress> processes);

  void before(const CollectiveCall& call) noexcept override;
  void after(const CollectiveCall& call) noexcept override;

  /// Adds what the ranks wait in to the failure of the call, if the daemon says so within a quarter
  /// of a second. One that has not been heard of lately is not asked.
  void explain(const CollectiveCall& call, Failure& failure);

 private:
  using Clock = CollectiveCall::Clock;

  void run();
  void publish_locked(const PublishedCall& call, bool ended);

  const std::shared_ptr<client::Connection> connection_;
  const Rank rank_;
  const Rank world_size_;

  std::optional<std::uint64_t> process_group_;
  std::vector<ProcessAddress> processes_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  std::optional<CollectiveCall> running_;
  Clock::time_point due_;                               ///< to publish the running call
  Clock::time_point wakes_ = Clock::time_point::max();  ///< when the thread looks again
  bool published_ = false;                              ///< the running call
  std::uint64_t published_in_ = 0;                      ///< which of the client's connections
  std::thread thread_;
};

}  // namespace c10dd::collectives
