// SPDX-License-Identifier: Apache-2.0
// Standalone: runs a daemon for one launch, until the launcher ends. The program of the daemon is
// the file c10dd in the folder that contains c10drun. The daemon listens on a free loopback port
// and keeps its state in memory.
#pragma once

#include <boost/asio/io_context.hpp>
#include <map>
#include <memory>
#include <string>

#include "client/launcher/orphan_killer.h"
#include "client/launcher/output.h"
#include "client/launcher/worker.h"

namespace c10dd::run {

/// Returns the path of the daemon's program. Throws Fatal if there is none.
std::string daemon_program();

class Standalone {
 public:
  /// Starts the daemon and blocks until it listens. Throws Fatal if it does not listen within 20 s.
  /// The daemon's standard error goes to the file `log`.
  Standalone(boost::asio::io_context& loop, OrphanKiller& orphan_killer, const std::string& program,
             const std::map<std::string, std::string>& inherited, const std::string& log);
  /// Sends SIGTERM to the daemon, and SIGKILL if it has not ended after 5 s. Runs `loop` meanwhile.
  ~Standalone();
  Standalone(const Standalone&) = delete;
  Standalone& operator=(const Standalone&) = delete;

  std::uint16_t port() const { return port_; }
  bool running() const { return process_->running(); }
  /// Returns how the daemon ended, such as "exited with code 3", and the last lines of its output.
  std::string end() const;

 private:
  boost::asio::io_context& loop_;
  OrphanKiller& orphan_killer_;
  Console silence_{false, false};
  std::uint16_t port_ = 0;
  std::shared_ptr<Worker> process_;
};

}  // namespace c10dd::run
