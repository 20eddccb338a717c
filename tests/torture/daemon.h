// SPDX-License-Identifier: Apache-2.0
// The real daemon, to be killed again and again and started on the same port and directory.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/integration/reserved_port.h"
#include "tests/torture/child.h"

namespace c10dd::torture {

/// How long a daemon may take to start, and to end after SIGTERM.
inline constexpr std::chrono::seconds kStartPatience{20};

struct DaemonOptions {
  std::string program;
  std::string engine;  ///< a URL; DIR in it is the directory
  std::string durability;
  std::string directory;
  std::string log = "daemon.log";         ///< name of the file in the directory
  std::vector<std::string> further = {};  ///< options of its command line
};

class Daemon {
 public:
  explicit Daemon(const DaemonOptions& options);
  Daemon(const Daemon&) = delete;

  /// Starts it and does not wait for it.
  void spawn();
  /// Waits until the daemon has reported that it listens. Returns false if it does not in time.
  bool ready(std::chrono::nanoseconds patience);

  /// SIGKILL; returns when it is dead.
  void kill();
  void signal(int number) { child_->signal(number); }
  /// Returns how the daemon has ended; nothing while it still runs.
  std::optional<int> ended() { return child_->ended(); }
  /// Sends SIGTERM. Returns how the daemon has ended; nothing if it did not end in time.
  std::optional<int> terminate(std::chrono::nanoseconds patience);

  const std::string& address() const { return address_; }
  /// The end of its log.
  std::string last_words() const;

 private:
  std::vector<std::string> command_;
  std::string log_;
  test::ReservedPort port_;
  std::string address_ = port_.address();
  std::unique_ptr<Child> child_;
};

}  // namespace c10dd::torture
