// SPDX-License-Identifier: Apache-2.0
// A process that the kill loop starts and ends: lines in, lines out, and how it died.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace c10dd::torture {

class Child {
 public:
  /// Standard error is appended to the file. The kernel kills the child with its parent's thread.
  Child(const std::vector<std::string>& command, const std::string& error_file);
  /// SIGKILL, if it lives.
  ~Child();
  Child(const Child&) = delete;

  void send(const std::string& line);

  /// The next line of its output; nothing when there is none in time or the output has ended.
  std::optional<std::string> line(std::chrono::nanoseconds patience);

  void signal(int number);

  /// How it ended, as of waitpid; nothing while it lives.
  std::optional<int> ended();

  /// Likewise; waits for it.
  std::optional<int> wait(std::chrono::nanoseconds patience);

  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  int in_ = -1;
  int out_ = -1;
  std::string read_;
  std::optional<int> status_;
};

/// For people: "exit 78", "signal 9".
std::string describe_end(int status);

}  // namespace c10dd::torture
