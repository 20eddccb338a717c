// SPDX-License-Identifier: Apache-2.0
// Owns two objects that all shards use: the group commit with its engine, and the directory that
// gives jobs their numbers. Carries out the decisions of core::DirectoryHost. After a commit with
// an unknown outcome, closes the engine and opens it again on a separate thread, while the loops
// keep serving connections.
//
// Threads: every call is made on the first loop, except those marked "Thread-safe."
#pragma once

#include <atomic>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/config/options.h"
#include "daemon/core/directory/directory_host.h"
#include "daemon/core/directory/directory_rows.h"
#include "daemon/metrics/metrics.h"
#include "daemon/shard/fleet_host.h"
#include "daemon/shard/loop.h"
#include "store/group_commit.h"

namespace c10dd::daemon {

namespace asio = boost::asio;

class Shard;
class Shards;

/// Returns the options for opening the engine, at the start and again after an engine was lost.
store::OpenOptions open_options(const Options& options);

/// An open engine, as it is passed to each shard.
struct OpenEngine {
  core::EngineState state;
  std::shared_ptr<store::GroupCommit> commit;
  /// Becomes false when the commit of a directory change does not succeed. After that, no new job
  /// number may be used.
  /// Used on the commit thread only.
  std::shared_ptr<std::atomic<bool>> intact;
};

class EngineHost final : private core::DirectoryHost::Shell {
 public:
  /// on_failed: called after the engine was lost, and after each failed attempt to open it again.
  EngineHost(Loop& loop, Metrics& metrics, const Options& options, std::function<void()> on_failed);
  ~EngineHost();

  /// Takes an engine, reads its directory, and hands the engine to the shards. Fails as
  /// read_directory() does, and with state_rolled_back if a shared engine has jobs whose names are
  /// lost and the options do not accept that. Blocks until the directory is read. Called before the
  /// loops run.
  Result<void> adopt(std::unique_ptr<store::Engine> engine, Shards& shards);

  /// Joins the fleet of a shared engine, at these addresses. Called before adopt(). Fails as
  /// FleetHost::join() does.
  Result<void> join_fleet(std::vector<std::string> addresses);
  /// Begins to send heartbeats, if the engine is shared. Called after adopt().
  void start_fleet();
  /// From now on the daemon hands its jobs over.
  void drain();

  core::DirectoryHost& directory() { return directory_; }

  /// Returns the shard that serves a run of a job. If the run is new and `asker` may make it, gives
  /// it a number. Fails as core::DirectoryHost::expect() does.
  Result<Shard*> shard_of(const std::string& job, const std::string& run,
                          const core::JobAsker& asker);

  /// See core::DirectoryHost::remove().
  void remove(const std::string& job, std::function<void(Result<void>)> then) {
    directory_.remove(job, std::move(then));
  }

  /// Retires the runs whose grace time is over. Called at the end of each turn of the first loop.
  void end_turn();

  /// Handles a report that an engine no longer works. `generation` tells which engine. Ignores the
  /// report if that engine is already closed. `rolled_back`: it holds less than was durable.
  /// Thread-safe.
  void report_lost(std::uint64_t generation, const std::string& why, bool rolled_back = false);

  /// Starts to free the disk space of removed rows. Then calls `then` on the first loop with the
  /// result of the previous attempt: false if it failed, or if the disk had too little space
  /// for it (see store::Engine::relieve()). Does not call `then` if the engine is not open.
  void relieve(std::function<void(bool)> then);

  /// Returns how many free bytes on the disk the engine needs to free the space of removed rows.
  std::uint64_t room_to_tidy() const;

  /// Writes a copy of the state to an absolute path. Calls `then` with the result on the first
  /// loop. Fails with `unavailable` if the engine is not open; otherwise fails as
  /// store::Engine::checkpoint() does.
  void checkpoint(const std::string& path, std::function<void(Result<void>)> then);

  /// Finishes the batches that were submitted, and closes the engine.
  /// Blocks. Called after the loops have ended and the shards have dropped the engine.
  void close();

  /// Returns why the engine is not open or does not commit, or an empty text if the engine works.
  std::string not_ready() const override;

  /// Returns how long this daemon may serve without another heartbeat, negative if it may not;
  /// nothing if it shares its engine with no other.
  std::optional<Duration> lease_left() const;

  /// Returns the age of the oldest commit that has not ended, or 0 if all commits have ended.
  Duration commit_age() const;

  /// Returns a description of the damage found in the state, or an empty text if none was found.
  const std::string& damage() const { return damage_; }

  /// Handles a report that the rows of a job are damaged.
  /// Thread-safe.
  void report_damage(const std::string& what);
  std::string_view engine_name() const { return engine_name_; }
  std::string_view durability() const { return durability_name_; }

 private:
  /// An engine whose directory has been read.
  struct Opened {
    std::shared_ptr<store::GroupCommit> commit;
    std::unique_ptr<core::Directory> directory;
  };

  core::JobHost& host_of(JobNumber number) override;
  void write(core::DirectoryHost::DirectoryBatch change,
             std::function<void(core::DirectoryHost::Written)> then) override;
  void read(Revision known, std::function<void(std::optional<core::DirectoryNews>)> then) override;
  void directory_damaged(const Failure& why) override;
  void forget(std::vector<JobNumber> jobs, std::function<void(bool)> then) override;
  void struck_out(const core::Directory::NamedRun& entry, std::string_view how) override;

  static Result<Opened> with_directory(std::unique_ptr<store::Engine> engine,
                                       const Options& options, TimePoint now,
                                       const core::AcceptedLoss& loss = {});
  Result<core::AcceptedLoss> accepted_loss(store::Engine& engine) const;
  static Result<Opened> open_again(const Options& options,
                                   std::shared_ptr<const store::HighWaterMark> acknowledged,
                                   TimePoint now);
  void arm_timer();
  void lose(const std::string& why, bool rolled_back);
  std::string stuck_commit() const;
  void reopen_later();
  void reopened(Result<Opened> opened);
  void take(Opened opened);
  void watch_commits();

  Loop& loop_;
  Metrics& metrics_;
  const Options& options_;
  std::function<void()> on_failed_;
  Shards* shards_ = nullptr;
  std::string engine_name_;
  std::string durability_name_;
  std::string lost_;  ///< why the engine is not open; empty while the engine is open
  std::string damage_;
  OpenEngine engine_;
  core::DirectoryHost directory_;
  std::unique_ptr<FleetHost> fleet_;  ///< null if the engine is not shared
  asio::steady_timer grace_timer_;
  bool grace_timer_set_ = false;
  asio::steady_timer watch_timer_;
  bool stuck_ = false;  ///< true if a commit was stuck at the last check
  asio::steady_timer reopen_timer_;
  std::chrono::milliseconds reopen_delay_{0};
  std::shared_ptr<const store::HighWaterMark>
      acknowledged_;  ///< Engine::acknowledged() of the lost engine; used on opener_ only
  asio::thread_pool opener_{1};  ///< closes and opens engines; the last member, so destroyed first
};

}  // namespace c10dd::daemon
