// SPDX-License-Identifier: Apache-2.0
// Asks a shared engine which daemons own jobs, on a link and a thread of its own, so that pages
// delay neither commits nor heartbeats. The link is opened when it is first used.
//
// Threads: every call is made on the first loop.
#pragma once

#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/shard/loop.h"
#include "store/fleet.h"

namespace c10dd::daemon {

class OwnerLookup {
 public:
  static constexpr std::size_t kWaiting = 64;  ///< most lookups at a time

  struct Found {
    store::FleetReading fleet;                        ///< read before the owners
    std::vector<std::optional<store::Owner>> owners;  ///< see store::Fleet::owners()
  };

  OwnerLookup(Loop& loop, std::string url, std::string ca_file = {})
      : loop_(loop), url_(std::move(url)), ca_file_(std::move(ca_file)) {}

  /// Reads the fleet, and the owners of these jobs. Calls `then` on the loop. Fails with
  /// unavailable if the engine does not reply, or if too many lookups wait.
  void find(std::vector<JobNumber> jobs, std::function<void(Result<Found>)> then);

  /// Ends the thread. Called after the loops have stopped.
  void close() { thread_.join(); }

 private:
  Result<Found> ask(const std::vector<JobNumber>& jobs);

  Loop& loop_;
  const std::string url_;
  const std::string ca_file_;  // of a rediss: server
  std::size_t waiting_ = 0;
  std::unique_ptr<store::Fleet> link_;  ///< used on thread_
  boost::asio::thread_pool thread_{1};  ///< the last member, so destroyed first
};

}  // namespace c10dd::daemon
