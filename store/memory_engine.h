// SPDX-License-Identifier: Apache-2.0
// Memory that several engines share, as several daemons share a Redis server: for the tests of the
// rules of shared engines, and for the simulator.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "store/fleet.h"
#include "store/job_head.h"
#include "store/row_map.h"

namespace c10dd::store {

/// The rows of all jobs and of the fleet. Not thread-safe.
class SharedMemory {
 public:
  struct JobRows {
    JobHead head;
    std::uint64_t process = 0;  ///< of the owner; 0: released
    std::vector<EpochStart> starts;
    RowMap rows;
    std::deque<JobBatch> newest = {};  ///< of job 0: the newest kChangesKept changes
  };

  std::map<JobNumber, JobRows> jobs;
  std::map<std::uint64_t, DaemonRow> daemons;
  std::uint64_t heartbeat_count = 0;  ///< this and the next two: see FleetReading
  std::string rolled_back;
  Bytes accepted;
  std::string server = "memory";  ///< see Engine::server()
};

/// Opens an engine on shared memory, for the daemon with this process number.
std::unique_ptr<Engine> open_on(std::shared_ptr<SharedMemory> memory, std::uint64_t process);
/// Opens a link to the fleet on shared memory.
std::unique_ptr<Fleet> open_fleet_on(std::shared_ptr<SharedMemory> memory);

}  // namespace c10dd::store
