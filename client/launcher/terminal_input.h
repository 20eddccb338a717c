// SPDX-License-Identifier: Apache-2.0
// Passes what is typed on the terminal on to a worker, which has a process group of its own and so
// may not read the terminal itself. Ctrl-C still goes to the launcher. Runs on the launcher's loop.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <string>

#include "client/internal/socket.h"

namespace c10dd::run {

class TerminalInput : public std::enable_shared_from_this<TerminalInput> {
 public:
  /// `terminal` stays open. Throws std::system_error if there is no pipe.
  TerminalInput(boost::asio::io_context& loop, int terminal);

  /// Returns the standard input of the worker. Called once; the worker gets it before start().
  client::Descriptor take_worker_end() { return std::move(worker_end_); }
  void start();
  void stop();

 private:
  void pass_on();

  const int terminal_;
  boost::asio::posix::stream_descriptor input_;
  boost::asio::steady_timer background_;
  client::Descriptor worker_end_;
  client::Descriptor pipe_;
};

}  // namespace c10dd::run
