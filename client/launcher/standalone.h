// SPDX-License-Identifier: Apache-2.0
// A daemon for one launch: runs the c10dd in the folder of c10drun on a free loopback port, with
// its state in memory, until the launcher ends.
#pragma once

#include <boost/asio/io_context.hpp>
#include <map>
#include <memory>
#include <string>

#include "client/launcher/output.h"
#include "client/launcher/warden.h"
#include "client/launcher/worker.h"

namespace c10dd::run {

class Standalone {
 public:
  /// Starts the daemon and blocks until it listens, at most 20 s. log: the file for its standard
  /// error. Throws Fatal.
  Standalone(boost::asio::io_context& loop, Warden& warden,
             const std::map<std::string, std::string>& inherited, const std::string& log);
  /// Ends the daemon with SIGTERM, and with SIGKILL if it still runs after 5 s. Runs the loop.
  ~Standalone();
  Standalone(const Standalone&) = delete;
  Standalone& operator=(const Standalone&) = delete;

  std::uint16_t port() const { return port_; }
  bool running() const { return process_->running(); }
  /// Returns how the daemon ended, with its last lines.
  std::string end() const;

 private:
  boost::asio::io_context& loop_;
  Warden& warden_;
  Console silence_{false, false};
  std::uint16_t port_ = 0;
  std::shared_ptr<Worker> process_;
};

}  // namespace c10dd::run
