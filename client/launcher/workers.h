// SPDX-License-Identifier: Apache-2.0
// Starts the workers of one generation on this node, reads their output, signals them and reaps
// them. Runs on the launcher's event loop.
#pragma once

#include <boost/asio/io_context.hpp>
#include <csignal>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/launcher/console.h"
#include "client/launcher/orphan_killer.h"
#include "client/launcher/output.h"
#include "client/launcher/plan.h"
#include "client/launcher/spawn.h"
#include "client/launcher/terminal_input.h"
#include "client/proxy/proxy.h"

namespace c10dd::run {

/// A worker that failed, with its last output.
struct FailedWorker {
  std::uint32_t rank = 0;
  pid_t pid = 0;
  Exit exit;
  LastLines last;         ///< last lines of stderr, or of stdout if stderr is empty
  std::string message{};  ///< text from the worker's error file; may be empty
};

/// The objects and values that the workers of all generations share.
struct WorkersContext {
  boost::asio::io_context& loop;
  OrphanKiller& orphan_killer;
  Console& console;
  std::string program;
  std::map<std::string, std::string> inherited;  ///< environment of the launcher
  std::string scratch;                           ///< temporary folder, for error files
  Console silence{false, false};                 ///< a console that prints no worker's output
};

class Worker;

class Workers {
 public:
  Workers(WorkersContext& home, const Options& options, const Plan& plan);
  /// Kills the workers that still run.
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// Starts the workers, and the store that they find at MASTER_ADDR. Throws std::system_error if
  /// the machine can not start a process, and Fatal if a log file or the store can not be created.
  void start();

  std::size_t running() const { return running_; }
  /// Returns the worker that failed first. Empty if no worker failed before pass_on() was called.
  const std::optional<FailedWorker>& failure() const { return failure_; }
  /// Returns how many workers were running when pass_on() was first called.
  std::size_t stopped() const { return stopped_; }
  bool stopping() const { return stopping_; }

  /// Passes a signal on that is not meant to end the workers; see send_to_handlers(). Returns to
  /// how many processes it was sent.
  std::size_t forward(int signal) const;
  /// Sends a signal to the process groups of all workers. After this call, the end of a worker does
  /// not count as a failure.
  void pass_on(int signal);
  void stop() { pass_on(SIGTERM); }
  void kill() { pass_on(SIGKILL); }

 private:
  void open_store();
  client::Descriptor input_of(std::uint32_t rank);
  std::string folder(std::uint32_t rank) const;
  std::string error_file(std::uint32_t rank) const { return folder(rank) + "/error.json"; }
  void ended(const Worker& worker);

  WorkersContext& home_;
  const Options& options_;
  Plan plan_;
  std::unique_ptr<proxy::Proxy> store_;  ///< null if the store is in rank 0
  std::vector<std::shared_ptr<Worker>> workers_;
  std::shared_ptr<TerminalInput> typed_;
  std::size_t running_ = 0;
  std::size_t stopped_ = 0;
  bool stopping_ = false;
  std::optional<FailedWorker> failure_;
};

}  // namespace c10dd::run
