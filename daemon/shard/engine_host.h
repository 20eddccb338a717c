// SPDX-License-Identifier: Apache-2.0
// What all shards share: the engine behind one group commit, and the directory that gives jobs
// their numbers. The shell around core::DirectoryHost. Closes the engine when a commit has an
// unknown outcome and opens it again, on a thread of its own: the loops keep serving connections
// meanwhile.
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
#include "daemon/core/host/directory_host.h"
#include "daemon/metrics/metrics.h"
#include "daemon/shard/loop.h"
#include "store/group_commit.h"

namespace c10dd::daemon {

namespace asio = boost::asio;

class Shard;
class Shards;

/// Returns the options with which the engine is opened, at the start and again.
store::OpenOptions open_options(const Options& options);

/// An open engine, as a shard gets it.
struct OpenEngine {
  core::EngineState state;
  std::shared_ptr<store::GroupCommit> commit;
  /// False once a change of the directory was not committed: then no new number may be used.
  /// Used on the commit thread only.
  std::shared_ptr<std::atomic<bool>> intact;
};

class EngineHost final : private core::DirectoryHost::Shell {
 public:
  /// on_failed: called when the engine was lost, or could not be opened again.
  EngineHost(Loop& loop, Metrics& metrics, const Options& options, std::function<void()> on_failed);
  ~EngineHost();

  /// Takes an engine, reads its directory, hands it to the shards. Fails as read_directory() does.
  /// Blocks until the directory is read. Called before the loops run.
  Result<void> adopt(std::unique_ptr<store::Engine> engine, Shards& shards);

  core::DirectoryHost& directory() { return directory_; }

  /// Returns the shard that serves a job; gives a new job a number. Fails as
  /// core::DirectoryHost::expect() does.
  Result<Shard*> shard_of(const std::string& job, const std::string& run);

  /// See core::DirectoryHost::remove().
  void remove(const std::string& job, std::function<void(Result<void>)> then) {
    directory_.remove(job, std::move(then));
  }

  /// Ends a turn, after ready sockets were drained: retires the runs whose grace is over.
  void end_turn();

  /// Takes the report of a shard that the engine of this generation no longer works. Ignored if
  /// that engine is closed already. Thread-safe.
  void report_lost(std::uint64_t generation, const std::string& why);

  /// Asks the engine to free the space of removed rows. Calls `then` on the first loop with true if
  /// the engine had room to do that when it last tried; never calls it if the engine is not open.
  void relieve(std::function<void(bool)> then);

  /// Returns how many free bytes on the disk the engine needs to do that.
  std::uint64_t room_to_tidy() const;

  /// Writes a copy of the state to an absolute path. Calls `then` on the first loop; fails with
  /// unavailable if the engine is not open, else as store::Engine::checkpoint() does.
  void checkpoint(const std::string& path, std::function<void(Result<void>)> then);

  /// Finishes the batches that were submitted, and closes the engine.
  /// Blocks. Called after the loops have ended and the shards have dropped the engine.
  void close();

  /// Returns why the engine is not open, or does not commit; empty if it does.
  std::string not_ready() const override;

  /// Returns the age of the oldest commit in flight; 0 if there is none.
  Duration commit_age() const;

  /// Returns what is known to be damaged though the engine is open; empty if nothing is.
  const std::string& damage() const { return damage_; }

  /// Takes the report that a job's rows are damaged.
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
  void write(core::DirectoryHost::DirectoryBatch change, std::function<void(bool)> then) override;
  void struck_out(const core::Directory::NamedRun& entry, std::string_view how) override;

  static Result<Opened> with_directory(std::unique_ptr<store::Engine> engine,
                                       const Options& options, TimePoint now);
  static Result<Opened> open_again(const Options& options,
                                   std::shared_ptr<const store::HighWaterMark> acknowledged,
                                   TimePoint now);
  void arm_timer();
  void lose(const std::string& why);
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
  std::string lost_;  ///< why the engine is not open; empty while it is
  std::string damage_;
  OpenEngine engine_;
  core::DirectoryHost directory_;
  asio::steady_timer grace_timer_;
  bool grace_timer_set_ = false;
  asio::steady_timer watch_timer_;
  bool stuck_ = false;  ///< at the last check: not_ready() though the engine is open
  asio::steady_timer reopen_timer_;
  std::chrono::milliseconds reopen_delay_{0};
  std::shared_ptr<const store::HighWaterMark>
      acknowledged_;             ///< by the engine that was lost; used on opener_ only
  asio::thread_pool opener_{1};  ///< closes and opens engines; last, since it uses the above
};

}  // namespace c10dd::daemon
