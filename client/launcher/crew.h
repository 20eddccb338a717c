// SPDX-License-Identifier: Apache-2.0
// The workers of one generation on this node: started, listened to, signalled, reaped. Runs on the
// launcher's loop; nothing blocks but standard output.
#pragma once

#include <boost/asio/io_context.hpp>
#include <csignal>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/launcher/output.h"
#include "client/launcher/plan.h"
#include "client/launcher/spawn.h"
#include "client/launcher/warden.h"

namespace c10dd::run {

/// A worker that ended, with what it said last.
struct FailedWorker {
  std::uint32_t rank = 0;
  pid_t pid = 0;
  Exit exit;
  LastLines last;         ///< of standard error, or of standard output if that is empty
  std::string message{};  ///< what it says in its error file; may be empty
};

/// Where things of a crew go.
struct CrewHome {
  boost::asio::io_context& loop;
  Warden& warden;
  Console& console;
  std::string program;
  std::map<std::string, std::string> inherited;  ///< environment
  std::string scratch;                           ///< a folder for error files
  Console silence{false, false};                 ///< for workers whose lines are not printed
};

class Worker;

class Crew {
 public:
  Crew(CrewHome& home, const Options& options, const Plan& plan);
  /// Kills who is left.
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  /// Throws std::system_error when the machine has no room for a process, Fatal for a log file that
  /// cannot be made.
  void start();

  std::size_t running() const { return running_; }
  /// The first that ended badly before stop() or pass_on().
  const std::optional<FailedWorker>& failure() const { return failure_; }
  /// How many were running when stop() or pass_on() was called first.
  std::size_t stopped() const { return stopped_; }
  bool stopping() const { return stopping_; }

  /// To every process group. From now on nobody's end is a failure.
  void pass_on(int signal);
  void stop() { pass_on(SIGTERM); }
  void kill() { pass_on(SIGKILL); }

 private:
  std::string folder(std::uint32_t rank) const;
  std::string error_file(std::uint32_t rank) const { return folder(rank) + "/error.json"; }
  void ended(const Worker& worker);

  CrewHome& home_;
  const Options& options_;
  const Plan plan_;
  std::vector<std::shared_ptr<Worker>> workers_;
  std::size_t running_ = 0;
  std::size_t stopped_ = 0;
  bool stopping_ = false;
  std::optional<FailedWorker> failure_;
};

}  // namespace c10dd::run
