// SPDX-License-Identifier: Apache-2.0
// What a daemon knows of the others that share its engine, and what follows from it: which of them
// is silent, who may take a job over, and how long this daemon may serve. Pure: the caller passes
// the clock. Not thread-safe: belongs to the DirectoryHost.
//
// Silence is counted by this daemon's own clock. A reading that shows no new heartbeat of a daemon
// adds the time since the reading before, but at most one interval. So a server that hangs, a pause
// of this process, or a clock that was set makes nobody silent: only readings count.
//
// A daemon whose heartbeats stop has lost its jobs, for itself, before any other daemon can count
// its silence up to the lease: see lease_end(). The others begin to count after its last heartbeat
// has reached the server; it counts from when that heartbeat was sent, and a tenth less.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/core/host/host_loop.h"
#include "daemon/core/host/job_directory.h"
#include "protocol/types.h"
#include "store/fleet.h"

namespace c10dd::core {

class FleetView {
 public:
  /// Heartbeats and readings in one lease.
  static constexpr int kBeatsPerLease = 5;
  /// A daemon counts as alive until this many readings in a row have shown no heartbeat.
  static constexpr int kReadingsBeforeDoubt = 2;
  /// How often a client that waits for a takeover is told so, at least.
  static constexpr Duration kTellInterval = std::chrono::milliseconds(500);

  FleetView(std::uint64_t self, Duration lease) : self_(self), lease_(lease) {}

  Duration interval() const { return lease_ / kBeatsPerLease; }

  /// Takes a reading that has arrived at `now`.
  void read(const std::vector<store::DaemonRow>& daemons, SteadyTime now);

  /// Decides what this daemon does about the owner that has refused its claim.
  ClaimDecision decide_claim(const store::Holder& holder) const;

  /// Returns until when this daemon may serve, after a heartbeat that was sent at `sent` and that
  /// the server has taken. `sent` is a time of HostLoop::boot_now().
  SteadyTime lease_end(SteadyTime sent) const { return sent + lease_ / 10 * 9; }

  /// Returns the addresses of all daemons of which heartbeats are heard; none if there is only one,
  /// because its clients need not try another address when it is slow.
  std::vector<std::string> addresses() const;
  /// Returns the addresses of the other daemons that take jobs: where the clients of this one can
  /// go while it cannot serve.
  std::vector<std::string> others() const;

  struct Other {
    store::DaemonRow row;
    Duration silent{0};
  };
  /// Returns the daemons of the newest reading, this one too, by process number.
  const std::map<std::uint64_t, Other>& daemons() const { return daemons_; }
  bool is_silent(const Other& other) const {
    return other.silent >= std::max(lease_, other.row.facts.lease);
  }
  /// Returns whether nobody needs the row of another daemon: it has been silent for an hour; or for
  /// its lease, and `self` has its address, or the fleet is full.
  bool is_over(const Other& other, const store::DaemonFacts& self) const;
  std::uint64_t self() const { return self_; }

  /// Returns the daemon that clients reach at this address, unless it is silent; null if there is
  /// none.
  const store::DaemonFacts* daemon_at(const std::string& address) const;
  /// Returns the key of this daemon; one that is not set if it is not known yet.
  native::RelayKey own_relay_key() const;
  /// Returns true if another daemon of which heartbeats are heard has an address with the host of
  /// one of this daemon's.
  bool shares_host() const;

 private:
  std::uint64_t self_;
  Duration lease_;
  std::optional<SteadyTime> last_;  ///< when the newest reading arrived
  std::map<std::uint64_t, Other> daemons_;
};

/// Why a daemon cannot join the fleet now.
struct Conflict {
  std::string reason;  ///< a sentence with both values
  std::uint64_t with = 0;
};
/// Returns a daemon of the fleet with which `self` cannot live: it has another lease, or an address
/// of `self`, or the fleet is full, and it has been silent longest. Nothing if there is none. A
/// daemon that is dead conflicts, too, until it counts as silent: see FleetView::is_silent().
std::optional<Conflict> conflict_of(const store::DaemonFacts& self, const FleetView& fleet);

}  // namespace c10dd::core
