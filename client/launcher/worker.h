// SPDX-License-Identifier: Apache-2.0
// One worker process and its two output streams. Runs on the launcher's loop.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "client/launcher/console.h"
#include "client/launcher/output.h"
#include "client/launcher/signals.h"
#include "client/launcher/spawn.h"

namespace c10dd::run {

/// Copies one output stream of a worker: line by line to the console, and unchanged to a file. A
/// line whose end does not come, as of a progress bar, is printed as far as it has come.
class Pump {
 public:
  /// `stream` is STDOUT_FILENO or STDERR_FILENO. `file` is empty if there is no file.
  Pump(boost::asio::io_context& loop, Console& console, std::uint32_t rank, int stream,
       client::Descriptor from, client::Descriptor file);

  /// Starts to copy. `owner` keeps this Pump alive until the stream has ended.
  void start(std::shared_ptr<void> owner);
  /// Copies the bytes left in the pipe, prints an unfinished last line, and closes the pipe. Does
  /// not wait for the end of the pipe: a process outside the worker's group may keep it open.
  void finish();
  void close();
  const LastLines& last() const { return last_; }

 private:
  bool take();
  void show_part_later(std::weak_ptr<void> owner);

  Console& console_;
  const std::uint32_t rank_;
  const int stream_;
  boost::asio::steady_timer part_;  ///< when the beginning of a line is printed
  bool part_waits_ = false;
  boost::asio::posix::stream_descriptor from_;
  client::Descriptor file_;
  LastLines last_;
  Lines lines_;
};

/// The files to which a worker's output is copied. A descriptor is empty if there is no file.
struct LogFiles {
  client::Descriptor out;
  client::Descriptor error;
};

class Worker : public std::enable_shared_from_this<Worker> {
 public:
  Worker(boost::asio::io_context& loop, Console& console, std::uint32_t rank, Child child,
         LogFiles files);
  ~Worker() { abandon(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Starts to copy the output and to wait for the end of the process. Calls each function once, on
  /// the event loop. Calls `about_to_reap` after the process has ended, before its number can be
  /// reused. Calls `ended` after the process was reaped and all its output was copied.
  void start(std::function<void()> about_to_reap, std::function<void()> ended);
  /// Kills the process if it runs. The functions given to start() are not called afterwards.
  void abandon();
  /// Sends a signal to the process group if the process runs.
  void signal(int number) const;
  /// Calls send_to_handlers() if the process runs.
  std::size_t signal_handlers(int number) const {
    return running_ ? send_to_handlers(child_.pid, number) : 0;
  }
  pid_t pid() const { return child_.pid; }
  bool running() const { return running_; }
  std::uint32_t rank() const { return rank_; }
  const Exit& exit() const { return exit_; }
  const LastLines& last() const { return error_.last().empty() ? out_.last() : error_.last(); }

 private:
  void await_end(const std::function<void()>& then);

  std::uint32_t rank_;
  Child child_;
  bool running_ = true;
  Exit exit_;
  boost::asio::posix::stream_descriptor process_;
  boost::asio::steady_timer look_;  ///< for a child without a pidfd
  Pump out_;
  Pump error_;
};

}  // namespace c10dd::run
