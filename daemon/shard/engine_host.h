// SPDX-License-Identifier: Apache-2.0
// What all shards share: the engine behind one group commit, and the directory that says which job
// has which number. Opens the engine, loses it when a commit has an unknown outcome, opens it
// again, on a thread of its own: the loop goes on telling clients that it is there. The shell
// around core::DirectoryHost. Lives on the first loop; what other loops may call says so.
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

/// How the engine of these options is opened, first or again.
store::OpenOptions open_options(const Options& options);

/// What a shard gets when an engine was opened.
struct OpenEngine {
  core::EngineState state;
  std::shared_ptr<store::GroupCommit> commit;
  /// False once a row of the directory was not taken: then no new number may be used. Belongs to
  /// the commit thread.
  std::shared_ptr<std::atomic<bool>> intact;
};

class EngineHost final : private core::DirectoryHost::Shell {
 public:
  /// on_failed: the engine was lost, or could not be opened again.
  EngineHost(Loop& loop, Metrics& metrics, const Options& options, std::function<void()> on_failed);
  ~EngineHost();

  /// Takes an engine, reads its directory, hands it to the shards. Blocking.
  Result<void> adopt(std::unique_ptr<store::Engine> engine, Shards& shards);

  core::DirectoryHost& directory() { return directory_; }

  /// Which shard a hello of this name will come to; the job gets a number if it is new.
  Result<Shard*> shard_of(const std::string& job, const std::string& run);

  /// See core::DirectoryHost.
  void remove(const std::string& job, std::function<void(Result<void>)> then) {
    directory_.remove(job, std::move(then));
  }

  /// After ready sockets were drained: runs whose grace is over are retired.
  void end_turn();

  /// From any loop: a shard found that the engine no longer works.
  void report_lost(std::uint64_t generation, const std::string& why);

  /// Room on the disk is short: the engine lets go of what was removed. `then` is called on the
  /// first loop with whether it had room for that when it last tried.
  void relieve(std::function<void(bool)> then);

  /// Bytes that the engine needs on the disk for that.
  std::uint64_t room_to_tidy() const;

  /// Writes a copy of the state to an absolute path; `then` is called on the first loop.
  void checkpoint(const std::string& path, std::function<void(Result<void>)> then);

  /// After the loops have ended, and the shards have let go of the engine: finishes the batches
  /// that were submitted, closes the engine.
  void close();

  /// Empty when the engine is open and takes commits, else why not.
  std::string not_ready() const override;

  /// Of the oldest commit that has not ended; 0: there is none.
  Duration commit_age() const;

  /// What is known to be damaged though the engine is open; empty when there is nothing.
  const std::string& damage() const { return damage_; }

  /// From any loop: a job's rows cannot be read.
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
  std::string lost_;  ///< why the engine is not open; empty when it is
  std::string damage_;
  OpenEngine engine_;
  core::DirectoryHost directory_;
  asio::steady_timer grace_timer_;
  bool grace_timer_set_ = false;
  asio::steady_timer watch_timer_;
  bool stuck_ = false;  ///< a commit was too old when it was last looked at
  asio::steady_timer reopen_timer_;
  std::chrono::milliseconds reopen_delay_{0};
  std::shared_ptr<const store::HighWaterMark>
      acknowledged_;             ///< by the engine that was lost; of opener_
  asio::thread_pool opener_{1};  ///< closes and opens engines; last: it uses the above
};

}  // namespace c10dd::daemon
