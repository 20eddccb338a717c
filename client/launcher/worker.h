// SPDX-License-Identifier: Apache-2.0
// One worker process and its two streams on the launcher's loop.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "client/launcher/output.h"
#include "client/launcher/spawn.h"

namespace c10dd::run {

/// One stream of a worker: to the console by lines, to a file as it is.
class Pump {
 public:
  /// stream: STDOUT_FILENO or STDERR_FILENO.
  Pump(boost::asio::io_context& loop, Console& console, std::uint32_t rank, int stream,
       client::Descriptor from, client::Descriptor file);

  /// owner: keeps this alive as long as it listens.
  void start(std::shared_ptr<void> owner);
  /// What is there now, then the partial last line; nothing is read afterwards. A process that is
  /// not of the group may keep the pipe open: that is not waited for.
  void finish();
  void close();
  const LastLines& last() const { return last_; }

 private:
  bool take();

  Console& console_;
  boost::asio::posix::stream_descriptor from_;
  client::Descriptor file_;
  LastLines last_;
  Lines lines_;
};

/// Where its output goes as it is; empty: nowhere.
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

  /// about_to_reap: called when the process has ended, as long as its group's number is its own;
  /// ended: when it was reaped and its output is complete. Both once, on the loop.
  void start(std::function<void()> about_to_reap, std::function<void()> ended);
  /// Kills it if it runs; nothing is called any more.
  void abandon();
  /// To its process group, if it runs.
  void signal(int number) const;
  pid_t pid() const { return child_.pid; }
  bool running() const { return running_; }
  std::uint32_t rank() const { return rank_; }
  const Exit& exit() const { return exit_; }
  const LastLines& last() const { return error_.last().empty() ? out_.last() : error_.last(); }

 private:
  std::uint32_t rank_;
  Child child_;
  bool running_ = true;
  Exit exit_;
  boost::asio::posix::stream_descriptor process_;
  Pump out_;
  Pump error_;
};

}  // namespace c10dd::run
