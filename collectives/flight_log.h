// SPDX-License-Identifier: Apache-2.0
// FlightLog: what a process has recorded of all its groups, and the files that it writes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/internal/fork_guard.h"
#include "collectives/bootstrap.h"
#include "collectives/flight_ring.h"

namespace c10dd::collectives {

/// A group that is recorded.
struct FlownGroup {
  std::string job;
  World world;
  std::uint64_t process_group = 0;  ///< a random number that its ranks share; 0: not known

  /// Returns the rank of this process in the job.
  Rank job_rank() const;
  /// Returns the ranks of all members in the job, in ascending order.
  std::vector<Rank> job_ranks() const;
  /// Returns the name, with the generation unless it is 0.
  std::string name() const;
};

/// What is written with the operations.
struct FlightStamp {
  std::string why;
  std::string host;
  std::uint64_t pid = 0;
  std::int64_t written = 0;                    ///< ns since 1970
  CollectiveCall::Clock::time_point now = {};  ///< the same time
};

/// Returns the flight record of one rank: all operations that are of these groups, by number.
std::string flight_record_of(const std::map<std::uint64_t, FlownGroup>& groups,
                             const std::vector<FlownOperation>& operations,
                             const FlightStamp& stamp);

/// Thread-safe.
class FlightLog {
 public:
  /// Returns the log of this process. A forked process gets a new one.
  static std::shared_ptr<FlightLog> of_this_process();

  FlightRing& ring() { return ring_; }

  /// Returns the number of the group.
  std::uint64_t add(FlownGroup group);
  void identify(std::uint64_t group, std::uint64_t process_group);
  void remove(std::uint64_t group);  ///< does nothing in a forked process

  /// As FlightRecorder::dump(), into this folder.
  std::vector<std::string> dump(const std::string& folder, const std::string& why);

 private:
  const client::HomeProcess home_;
  FlightRing ring_;
  std::mutex mutex_;
  std::uint64_t groups_made_ = 0;
  std::map<std::uint64_t, FlownGroup> groups_;
  std::mutex dumping_;  // one file is written at a time
};

}  // namespace c10dd::collectives
