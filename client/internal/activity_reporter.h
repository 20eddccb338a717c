// SPDX-License-Identifier: Apache-2.0
// ActivityReporter: the process groups of a client, and the connection that reports them. It does
// not decide what a report says: see client/core/activity.h.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "client/core/activity.h"
#include "client/internal/connection.h"
#include "client/internal/fork_guard.h"

namespace c10dd::client {

/// Thread-safe. In a forked process its methods do nothing.
///
/// It calls WatchedGroup::read and `blocked` under its mutex, on the connection's thread or one
/// that calls explain() or close(). They must not call the client or the reporter. It calls
/// WatchedGroup::hopeless on the connection's thread, without a lock. Meanwhile the client sends no
/// heartbeats, so `hopeless` must return soon. It may call close(), but nothing else of the client.
/// None of them may lock what a thread holds during a call of open(), close() or explain().
class ActivityReporter : public std::enable_shared_from_this<ActivityReporter> {
 public:
  /// Reports a group from now on. `blocked` says what Activity::blocked does; of all that were
  /// passed, the newest counts, also after its group was closed.
  void open(WatchedGroup group, std::function<bool()> blocked);

  /// Ends the reports of a group: the last one says how far it has come now. Afterwards its
  /// functions are not called, and none of them runs: waits until they have returned. Only if
  /// `hopeless` of this group is the caller, it still runs.
  void close(std::uint64_t process_group);

  /// Returns the functions that a connection calls to send the reports. They keep the reporter.
  Connection::Periodic periodic();

  /// Returns why an operation of a group does not end: what the daemon has said lately, or what it
  /// replies to the news that the operation has timed out. Returns nothing if the daemon does not
  /// know, if there is no session, or after `patience` without a reply. With `anew`, what the
  /// daemon has said lately counts only if it calls the group hopeless: the group has failed since.
  std::optional<ActivityDiagnosis> explain(Connection& connection, std::uint64_t process_group,
                                           Duration patience, bool anew = false);

 private:
  using Lock = std::unique_lock<std::mutex>;
  using Hopeless = std::function<void(const ActivityDiagnosis&)>;

  std::optional<Request> next(bool again);
  void replied(const Reply& reply);
  std::optional<ActivityDiagnosis> known(std::uint64_t process_group) const;
  bool blocked() const { return blocked_ && blocked_(); }
  void changed() { wanted_.store(!reports_.empty(), std::memory_order_relaxed); }

  const HomeProcess home_;
  std::atomic<bool> wanted_ = false;  // !reports_.empty()
  std::mutex mutex_;
  ActivityReports reports_;
  std::function<bool()> blocked_;
  std::map<std::uint64_t, Hopeless> hopeless_;  // of the open groups; empty once it was called
  std::vector<std::uint64_t> given_up_;         // hopeless groups that were not called yet
  std::optional<std::uint64_t> called_;         // the group whose `hopeless` runs
  std::thread::id caller_;                      // the thread that runs it
  std::condition_variable returned_;
};

/// Returns the reporter of a client, for the layers above the client.
std::shared_ptr<ActivityReporter> activity_of(const Client& client);

}  // namespace c10dd::client
