// SPDX-License-Identifier: Apache-2.0
// This daemon as a member of the fleet of a shared engine: decides when it sends a heartbeat, and
// what follows from each. It sends one only if every loop turns, the engine is open and commits,
// and the heartbeat reaches the server of the engine (FleetLink): a daemon that cannot serve must
// lose its jobs. While the state is rolled back (StateWatch), the engine stays closed. Pure: links
// and timers belong to the Shell. All calls are made on the loop of the DirectoryHost.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "daemon/core/directory/directory_host.h"
#include "daemon/core/fleet/fleet_link.h"
#include "daemon/core/fleet/state_watch.h"
#include "store/fleet.h"

namespace c10dd::core {

/// Something to log.
struct FleetEvent {
  enum class Kind : std::uint8_t {
    lease_over,
    lease_renewed,
    heartbeat_failed,
    daemon_silent,
    daemon_heard,
    rolled_back,
    renewed,  ///< an operator has accepted a loss
  };
  Kind kind;
  std::string detail = {};         ///< a reason, or empty
  store::DaemonFacts daemon = {};  ///< of daemon_silent and daemon_heard
};

class FleetMember {
 public:
  using Heard = FleetLink::Heard;

  class Shell {
   public:
    virtual ~Shell() = default;

    /// Calls `then` on the loop, after every loop of the daemon has turned.
    virtual void turn_all(std::function<void()> then) = 0;
    /// Calls FleetLink::ask(), and then `then` with its result on the loop.
    virtual void ask(bool beats, const store::DaemonFacts& self,
                     std::function<void(Heard)> then) = 0;
    /// Removes the row of a daemon; see store::Fleet::remove().
    virtual void remove(std::uint64_t process, std::uint64_t beats) = 0;
    /// Tells all daemons what was lost; see store::Fleet::report_rollback().
    virtual void report_rollback(const std::string& what) = 0;
    /// Returns the age of the oldest commit that has not ended; 0 if there is none.
    virtual Duration commit_age() const = 0;
    /// Returns the value of Directory::precondition() of the open engine.
    virtual Bytes incarnation() const = 0;
    /// Closes the engine, calls engine_lost(), and opens the engine again as soon as may_open().
    virtual void lose_engine(const std::string& why) = 0;
    /// Hands the news to all hosts.
    virtual void tell(const FleetNews& news) = 0;
    virtual void report(const FleetEvent& event) = 0;
  };

  /// `loop`, `directory` and `shell` must outlive the member. The directory must have joined.
  FleetMember(HostLoop& loop, DirectoryHost& directory, Shell& shell, store::DaemonFacts self,
              StateMark mark = {})
      : loop_(loop),
        directory_(directory),
        shell_(shell),
        self_(std::move(self)),
        watch_(std::move(mark)) {}

  /// Notes the first heartbeat, which was sent at `sent`, before the hosts serve.
  void joined(SteadyTime sent);

  /// Does what is due. Called once per FleetView::interval().
  void tick();
  /// Notes that the engine was opened, and its directory read.
  void engine_opened() { watch_.opened(shell_.incarnation()); }
  /// Notes that the engine was closed after a failure. `suspicion` says what a job has found to be
  /// lost, or is empty.
  void engine_lost(const std::string& suspicion);
  /// Returns whether the engine may be opened: the server was read since the engine was lost, and
  /// its state is not rolled back.
  bool may_open() const;

  /// Tells the fleet, from the next heartbeat on, that the daemon hands its jobs over.
  void drain() { self_.draining = true; }

  const store::DaemonFacts& self() const { return self_; }
  const FleetNews& news() const { return news_; }
  StateWatch& watch() { return watch_; }
  /// Returns what the state has lost, so that nothing is served, or an empty text.
  const std::string& rolled_back() const { return watch_.rolled_back(); }
  /// Returns why the newest heartbeat or reading has failed; empty if it has not.
  const std::string& failure() const { return failure_; }
  /// Returns why this daemon serves no jobs now, or an empty text.
  std::string not_ready() const;

 private:
  void ask(bool beats);
  void heard(SteadyTime sent, bool beats, const Result<store::FleetReading>& heard);
  void state_changed(StateWatch::Verdict verdict);
  void note_others();
  std::vector<std::string> others();
  std::string why() const;

  HostLoop& loop_;
  DirectoryHost& directory_;
  Shell& shell_;
  store::DaemonFacts self_;
  FleetNews news_;
  SteadyTime others_known_until_{};
  std::string failure_;  ///< why the last try failed; empty if it did not
  StateWatch watch_;
  std::string told_;                      ///< what was reported to be lost
  bool fresh_ = true;                     ///< the state was read since the engine was lost
  std::uint64_t losses_ = 0;              ///< how often the engine was lost
  bool asking_ = false;                   ///< a heartbeat or a reading is under way
  bool held_ = true;                      ///< whether the lease held at the last look
  std::map<std::uint64_t, bool> silent_;  ///< the other daemons, as they were reported
};

}  // namespace c10dd::core
