// SPDX-License-Identifier: Apache-2.0
// What all parts of a JobHost share: what is around the host, and what the host knows of the
// engine, the fleet and the time. JobHost owns it and changes it; the parts read it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/host/growth_gate.h"
#include "daemon/core/host/host_loop.h"
#include "daemon/core/host/host_shell.h"
#include "daemon/core/host/job_directory.h"
#include "daemon/core/host/job_slot.h"
#include "daemon/core/host/job_time.h"
#include "daemon/core/quotas.h"
#include "store/engine.h"

namespace c10dd::core {

class JobHost;

/// Returns a failure with the code `unavailable`. Its `retry_after` asks the client to retry soon.
Failure unavailable(std::string detail);

/// The engine that is open.
struct EngineState {
  std::uint64_t generation = 0;   ///< number of times that an engine was opened
  std::uint64_t incarnation = 0;  ///< of the state
  bool shared = false;            ///< several daemons use the engine, so reads wait for ownership
  bool is_volatile = false;       ///< the engine is in memory only, so it gets no rows
  store::Precondition precondition = {};  ///< for claims: see core::Directory::precondition()
  /// The daemon has joined a fleet: it serves jobs only while its lease holds, and other daemons
  /// may own jobs.
  bool in_fleet = false;
};

/// What a host learns of the fleet after each heartbeat.
struct FleetNews {
  SteadyTime lease_end;                ///< as FleetView::lease_end(), by HostLoop::boot_now()
  std::vector<std::string> addresses;  ///< of all daemons, for clients
  std::vector<std::string> others;     ///< of those that may serve when this one cannot
  /// How often the lease had ended before the heartbeat that renewed it was answered. Meanwhile
  /// other daemons may have taken over the jobs, although the lease holds again.
  std::uint64_t lapses = 0;
};

struct HostSettings {
  Quotas quotas;
  std::string version;  ///< Welcome::daemon
};

struct HostContext {
  JobHost& host;
  HostLoop& loop;
  HostShell& shell;
  JobDirectory& directory;
  GrowthGate& growth;
  const HostSettings settings;
  JobTime time;
  std::optional<EngineState> engine = {};  ///< empty while no engine is open
  FleetNews fleet = {};
  bool draining = false;

  TimePoint now() const { return time.now(loop.now()); }
  /// Returns the account that pays for what nobody in particular makes the job hold.
  AccountRef account_of(const JobSlot& slot) const {
    return growth.memory().account(
        {.principal = {}, .observes = false, .job = slot.number, .job_name = slot.name});
  }
  /// Returns how much memory the sender of a request may have held more.
  Allowance allowance(const Origin& from) const {
    return from.account ? Allowance(growth.memory(), *from.account) : Allowance();
  }
  /// Returns true if the engine of this generation is open.
  bool is_open(std::uint64_t generation) const {
    return engine && engine->generation == generation;
  }
  bool in_fleet() const { return engine && engine->in_fleet; }
  /// Returns false if other daemons may take over the jobs of this one.
  bool lease_holds() const;
  /// Returns true if no row of the job goes to an engine, so that no reply waits for one.
  bool is_volatile(const JobSlot& slot) const {
    return slot.is_volatile || (engine && engine->is_volatile);
  }
  /// Returns the failure for clients of a daemon that cannot serve any job now. In a fleet it names
  /// the other daemons, which may serve meanwhile. A client stays with a daemon that names none.
  Failure cannot_serve(std::string why) const;
};

}  // namespace c10dd::core
