// SPDX-License-Identifier: Apache-2.0
// Where the runs of jobs are in a fleet, for requests that come to any of its daemons. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "daemon/core/directory/directory.h"
#include "daemon/core/directory/fleet_view.h"

namespace c10dd::core {

/// The owner of a run, for pages.
struct RunOwner {
  Directory::NamedRun run;
  std::optional<store::Owner> owner = {};   ///< nothing: no daemon owns the run
  std::vector<std::string> addresses = {};  ///< of the owner; none if it has left the fleet
  bool here = false;                        ///< this daemon is the owner
};
RunOwner owner_of(const Directory::NamedRun& run, const std::optional<store::Owner>& owner,
                  const FleetView& fleet);

/// What a daemon does about a request for these runs, none of which it serves now.
struct RunOwners {
  struct Elsewhere {
    std::uint64_t process = 0;
    std::vector<Directory::NamedRun> runs;
  };
  /// The runs that this daemon may serve: it owns them, nobody does, or their owner was silent for
  /// its lease.
  std::vector<Directory::NamedRun> claimable;
  std::vector<Elsewhere> elsewhere;  ///< the owners that are alive, by process number
  /// Set if the owner of a run is silent, but not for its lease, or hands its runs over: it is not
  /// known yet who will serve the run. Says when to ask again.
  std::optional<Failure> undecided;
};
/// `owners` has the owner of each run, as read after `fleet`, or with it.
RunOwners run_owners(const std::vector<Directory::NamedRun>& runs,
                     const std::vector<std::optional<store::Owner>>& owners,
                     const FleetView& fleet);

/// Returns the daemon of the fleet with this address, to which runs are to be moved. Fails with
/// invalid_argument if there is none, and with unavailable if it is silent or hands its own runs
/// over; the texts name the daemons that would do.
Result<store::DaemonFacts> target_of_move(const std::string& address, const FleetView& fleet);

}  // namespace c10dd::core
