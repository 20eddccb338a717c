// SPDX-License-Identifier: Apache-2.0
// A daemon for one launch: the c10dd beside this program, on a free loopback port, with its state
// in memory, ended with the launcher.
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
  /// Returns when the daemon listens. log: a file for what it says. Throws Fatal.
  Standalone(boost::asio::io_context& loop, Warden& warden,
             const std::map<std::string, std::string>& inherited, const std::string& log);
  /// SIGTERM, and SIGKILL if that does not help.
  ~Standalone();
  Standalone(const Standalone&) = delete;
  Standalone& operator=(const Standalone&) = delete;

  std::uint16_t port() const { return port_; }
  bool running() const { return process_->running(); }
  /// How it ended, with its last lines.
  std::string end() const;

 private:
  boost::asio::io_context& loop_;
  Warden& warden_;
  Console silence_{false, false};
  std::uint16_t port_ = 0;
  std::shared_ptr<Worker> process_;
};

}  // namespace c10dd::run
