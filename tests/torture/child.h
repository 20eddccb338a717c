// SPDX-License-Identifier: Apache-2.0
// A child process of the kill loop: sends it lines, reads its lines, and tells how it ended.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace c10dd::torture {

class Child {
 public:
  /// Appends standard error to the file. The kernel kills the child when this thread ends.
  Child(const std::vector<std::string>& command, const std::string& error_file);
  /// SIGKILL, if it lives.
  ~Child();
  Child(const Child&) = delete;

  void send(const std::string& line);

  /// Returns the next line of its output, or nothing if none comes in time or the output has ended.
  std::optional<std::string> line(std::chrono::nanoseconds patience);

  void signal(int number);

  /// Returns how the child ended, as a status of waitpid(); nothing while it still runs.
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

/// Returns a status of waitpid() as text: "exit 78", "signal 9".
std::string describe_end(int status);

}  // namespace c10dd::torture
