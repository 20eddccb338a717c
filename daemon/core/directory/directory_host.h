// SPDX-License-Identifier: Apache-2.0
// Decides which host serves a job, and when a run is retired (dropped and erased). Owns the
// directory, and asks the hosts which jobs are in use. A daemon has one DirectoryHost, on the first
// loop. Does no I/O: it uses the engine through Shell, which the owner implements.
//
// Lookups: each JobLocation carries a lookup number. The number counts the locations that the
// directory has given out for the job. When a host reports a job as idle, it names the newest
// lookup number that it has seen. If the directory has given out a newer number, a hello may still
// be on its way to the host, and the report is ignored.
//
// Several daemons: on an engine that they share, each has a directory of its own in memory, and
// follows the changes of the others. A change is decided, written if the directory in the engine is
// still the one that it was decided on, and otherwise decided again on the newer directory. The
// changes that wait are written together, one batch at a time, and nobody learns of them before
// they are durable. A daemon that others overtake asks the engine for a turn. A job is retired by
// the daemon that owns it; its name leaves the directory first, and a mark stays until its rows are
// erased. FleetView judges the owners of jobs.
//
// Endpoints: the shell has the sockets (EndpointPorts), the directory the rows. The reply to a
// lease or a release leaves when its row is durable.
//
// Threads: all calls are made on the thread of the loop, except those marked "Thread-safe."
// Callbacks run on that loop unless the call names another loop.
//
// Files: jobs and runs are in directory_host.cc, endpoints in directory_host_endpoints.cc, what
// concerns the fleet in directory_host_fleet.cc.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "daemon/core/directory/directory.h"
#include "daemon/core/directory/directory_mirror.h"
#include "daemon/core/directory/directory_reading.h"
#include "daemon/core/directory/fleet_view.h"
#include "daemon/core/directory/volatile_runs.h"
#include "daemon/core/host/job_host.h"
#include "daemon/core/host/new_job_pace.h"

namespace c10dd::core {

/// The listeners of endpoints. Called on the loop of the DirectoryHost.
class EndpointPorts {
 public:
  virtual ~EndpointPorts() = default;

  /// Listens and serves for a new endpoint, on a free port that no endpoint in `leased` has.
  /// Returns the port. Fails if there is none.
  virtual Result<std::uint16_t> open(const Endpoint& endpoint, const Endpoints& leased) = 0;
  /// Stops to listen for an endpoint. Its connections go on. `how` is "released", "expired" or
  /// "withdrawn", for the log.
  virtual void close(const Endpoint& endpoint, std::string_view how) = 0;
  /// Listens for these endpoints, each on its port, and for no others. Tries again later where a
  /// port cannot be opened now.
  virtual void restore(const std::vector<Endpoint>& leased) = 0;
  /// Returns true if an endpoint has a connection. Each change goes to
  /// DirectoryHost::endpoint_in_use().
  virtual bool in_use(const Endpoint& endpoint) const = 0;
  /// Returns the address on which the endpoints listen.
  virtual const std::string& host() const = 0;
};

class DirectoryHost final : public JobDirectory {
 public:
  /// A change of the directory that is committed as a whole.
  struct DirectoryBatch {
    Revision from = 0;  ///< revision of the directory before the change
    Revision to = 0;    ///< revision of the directory after the change
    Rows rows;          ///< changed rows of the directory
    /// Jobs that leave the directory. On a shared engine the change is made only if this daemon
    /// owns all of them; on any other engine, their rows are erased in the same commit.
    std::vector<JobNumber> erased;
    /// If other daemons have changed the directory, refuse their next changes, see JobBatch::turn.
    bool turn = false;
  };

  /// The result of a change of the directory.
  struct Written {
    enum class Outcome : std::uint8_t {
      durable,
      moved,  ///< not made: another daemon has changed the directory
      held,   ///< not made: other daemons own some of DirectoryBatch::erased
      lost,   ///< may or may not be made: the engine is lost
    };
    Outcome outcome = Outcome::lost;
    std::vector<JobNumber> held = {};

    bool durable() const { return outcome == Outcome::durable; }
  };

  /// The functions that the host needs from the shell around it. Called on the loop's thread.
  class Shell {
   public:
    virtual ~Shell() = default;

    /// Returns the host that serves the job with this number. The host of a number never changes
    /// while the process runs.
    virtual JobHost& host_of(JobNumber number) = 0;
    /// Commits a change of the directory. Later claims and loads of jobs must happen after the
    /// commit; see write_directory(). When the result is known, calls `then` on the loop, unless
    /// `then` is empty.
    virtual void write(DirectoryBatch batch, std::function<void(Written)> then) = 0;
    /// Reads what other daemons have changed in the directory since a revision, in the steps of a
    /// DirectoryReading. Calls `then` on the loop. If the engine is lost, `then` gets nothing.
    virtual void read(Revision known, std::function<void(std::optional<DirectoryNews>)> then) = 0;
    /// Erases what a shared engine keeps of these marked jobs. Calls `then(done)` on the loop.
    virtual void forget(std::vector<JobNumber> jobs, std::function<void(bool)> then) = 0;
    /// Reports that the directory is damaged: the engine must be closed and opened again.
    virtual void directory_damaged(const Failure& why) = 0;
    /// Reports that a run has left the directory, for the log. `how` is "retired" or "removed".
    virtual void struck_out(const Directory::NamedRun& entry, std::string_view how) = 0;
    /// Returns the reason why there is no directory now.
    virtual std::string not_ready() const = 0;
  };

  /// `loop` and `shell` must outlive the host.
  DirectoryHost(HostLoop& loop, Shell& shell, const VolatileRuns::Settings& settings = {})
      : loop_(loop), shell_(shell), volatile_runs_(settings), time_(loop.now()) {}

  /// Starts to use a directory that was read from a newly opened engine. `generation` counts how
  /// often an engine was opened.
  void opened(std::unique_ptr<Directory> directory, std::uint64_t generation);
  /// Drops the directory after the engine has failed.
  void lost();

  // ---- several daemons

  /// Shares the engine with others from now on. Called before opened().
  void join_fleet(FleetView fleet) { fleet_ = std::move(fleet); }
  /// Takes a reading of the fleet. Follows the directory if another daemon has changed it.
  void heard(const store::FleetReading& reading);
  const std::optional<FleetView>& fleet() const { return fleet_; }

  void decide_claim(const store::Holder& holder, HostLoop& back,
                    std::function<void(ClaimDecision)> then) override;
  void note_dropped(JobNumber job) override;
  void found_gone() override;
  bool is_open() const { return directory_ != nullptr; }

  /// Calls `then` on the loop when the directory has followed the changes that heard() has noticed,
  /// and has no change that may not be made. Does not wait for changes that others overtake.
  void after_changes(std::function<void()> then);
  /// Returns all runs, or those of a job; none if the engine is not open.
  std::vector<Directory::NamedRun> runs() const;
  std::vector<Directory::NamedRun> runs(const std::string& job) const;
  /// Serves a known run as JobHost::serve() does. Calls `then` on the loop. Fails with not_found if
  /// the directory has no such run any more.
  void serve(const Directory::NamedRun& run, std::function<void(Result<void>)> then);

  /// Makes a volatile run, which a hello can name from now on, and returns its number. If a live
  /// volatile run has this name, returns its number. Needs no engine. Fails as VolatileRuns::open()
  /// does.
  Result<JobNumber> open_volatile(const std::string& job, const std::string& run,
                                  const std::string& address) {
    return volatile_runs_.open(job, run, address);
  }
  /// Ends a volatile run: no hello finds it any more. Its sessions end when it is retired. Has no
  /// effect if no live run has this name.
  void end_volatile(const std::string& job, const std::string& run);
  /// Undoes end_volatile() as VolatileRuns::resume() does. Returns whether there was such a run.
  bool resume_volatile(const std::string& job, const std::string& run, const std::string& address) {
    return volatile_runs_.resume(job, run, address).has_value();
  }
  /// Returns true if resume_volatile() would find a run.
  bool keeps_volatile(const std::string& job, const std::string& run) const {
    return volatile_runs_.is_kept(job, run);
  }

  /// Returns the number of the job that a hello will name. A new job gets a number and is marked as
  /// idle, so the directory retires the job after the grace if no hello comes. Fails as locate().
  Result<JobNumber> expect(const std::string& job, const std::string& run, const JobAsker& asker);

  void locate(const std::string& job, const std::string& run, const JobAsker& asker, HostLoop& back,
              std::function<void(Result<JobLocation>)> then) override;
  void report_idle(const JobLocation& location, bool empty) override;

  /// Removes a job with all its runs and their rows. Fails with not_found if the job is unknown.
  /// Fails with unavailable if a session is connected or connecting, if the engine is not open, or
  /// if the engine is lost before the removal is durable. Calls `then` on the loop, possibly before
  /// remove() returns.
  void remove(const std::string& job, std::function<void(Result<void>)> then);

  /// Begins to serve endpoints on `ports`, which must outlive the host or end_endpoints(). Called
  /// before the first lease.
  void serve_endpoints(EndpointPorts& ports);

  /// Fails as Endpoints::check(), EndpointPorts::open() and Directory::lease_endpoint() do, and
  /// with unavailable if the engine is not open or is lost before the row is durable.
  void lease_endpoint(const std::string& job, const LeaseEndpoint& request, HostLoop& back,
                      std::function<void(Result<EndpointLease>)> then) override;

  /// Releases an endpoint. Fails with not_found if there is none of this name, and with unavailable
  /// as lease_endpoint() does. Calls `then` on the loop.
  void release_endpoint(const Endpoints::Name& name, std::function<void(Result<void>)> then);

  /// Notes that an endpoint has got its first connection, or that its last one has ended.
  void endpoint_in_use(const Endpoint& endpoint, bool in_use);

  /// Returns the leased endpoints. Fails with unavailable if the engine is not open.
  Result<const Endpoints*> endpoints() const;

  /// From now on, no endpoint expires and none is leased.
  void drain() { draining_ = true; }

  /// Ends a turn of the loop, after its handlers have run: advances job time, retires the runs
  /// whose grace is over, and ends the endpoints whose ttl is over.
  void end_turn();
  /// Returns the time by which end_turn() must be called again; empty if no run waits for the end
  /// of its grace.
  std::optional<SteadyTime> next_wake() const;

  TimePoint job_time() const { return time_.now(loop_.now()); }

 private:
  struct Removal;
  using NamedRun = Directory::NamedRun;

  struct Change {
    std::function<DirectoryBatch()>
        decide;                         ///< changes directory_; no rows: there is nothing to do
    std::function<void(Written)> then;  ///< called when the change is durable, or will not be made
    bool alone = false;  ///< written without others; needed if DirectoryBatch::erased is not empty
  };
  void change(Change change);
  void next_change();
  void decide();
  void changed(const Written& result);
  void undo();
  void follow();
  void followed(DirectoryNews news);
  void take(const Rows& rows, Revision revision);
  void retire_shared(const std::vector<NamedRun>& over);
  void remove_shared(const std::string& job, const std::vector<JobNumber>& numbers,
                     std::function<void(Result<void>)> then);
  void drop_runs(const std::vector<NamedRun>& runs, const std::function<void()>& then);
  void erase_marked(const std::vector<JobNumber>& numbers);
  void locate_new(const std::string& job, const std::string& run, const JobAsker& asker,
                  std::function<void(Result<JobLocation>)> then);
  void locate_paced(const std::string& job, const std::string& run, const JobAsker& asker,
                    std::function<void(Result<JobLocation>)> then);
  void locate_due(TimePoint now);

  Result<JobNumber> number_of(const std::string& job, const std::string& run, const JobAsker& asker,
                              Effects& effects);
  Result<JobNumber> number_of(const std::string& job, const std::string& run,
                              const JobAsker& asker);
  JobLocation location_of_idle(JobNumber number);
  Result<JobLocation> locate(const std::string& job, const std::string& run, const JobAsker& asker);
  JobLocation location_of(JobNumber number);
  void retire();
  void retire_volatile(TimePoint now);
  void restore_endpoints();
  void lease(const std::string& job, const LeaseEndpoint& request,
             std::function<void(Result<EndpointLease>)> then);
  void expire_endpoints();
  std::optional<TimePoint> next_expiry() const;
  void strike_out(Directory::Retired retired, Revision before, std::string_view how,
                  std::function<void(bool)> then = {});
  void finish(const std::shared_ptr<Removal>& removal);
  Failure closed() const { return unavailable(shell_.not_ready()); }

  HostLoop& loop_;
  Shell& shell_;
  std::unique_ptr<Directory> directory_;
  VolatileRuns volatile_runs_;
  std::uint64_t generation_ = 0;                          ///< of the engine
  std::unordered_map<JobNumber, std::uint64_t> lookups_;  ///< newest lookup of each job
  JobTime time_;
  std::optional<FleetView> fleet_;
  std::deque<Change> changes_;  ///< of a shared engine; the first `together_` are under way
  std::size_t together_ = 0;
  int overtaken_ = 0;                             ///< how often in a row another daemon was faster
  std::vector<std::function<void()>> followers_;  ///< see after_changes()
  NewJobPace pace_;                               ///< of a fleet
  std::multimap<TimePoint, std::function<void()>> paced_;  ///< new jobs, by when they may be made
  DirectoryBatch decided_;                                 ///< the changes that are being written
  DirectoryMirror mirror_;  ///< of a shared engine: directory_ without `decided_`
  bool busy_ = false;       ///< a change is being written, or the directory is being read
  bool behind_ = false;     ///< another daemon has changed the directory
  EndpointPorts* ports_ = nullptr;
  bool expiring_ = false;  ///< a change that ends endpoints is under way
  bool draining_ = false;
};

}  // namespace c10dd::core
