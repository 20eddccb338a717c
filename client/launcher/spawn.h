// SPDX-License-Identifier: Apache-2.0
// Starts a child process in a process group of its own, and reaps it. The kernel kills the child
// when this process ends.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "client/internal/socket.h"

namespace c10dd::run {

struct Child {
  pid_t pid = -1;  ///< process id; also the number of the child's process group
  /// A pidfd: readable after the child has ended. Empty where the kernel or a sandbox gives none.
  client::Descriptor process;
  client::Descriptor out;    ///< standard output of the child; non-blocking
  client::Descriptor error;  ///< standard error of the child; non-blocking
};

inline constexpr int kUnknownCode = 1;

/// How a process ended.
struct Exit {
  int code = 0;
  int signal = 0;     ///< the signal that killed the process; 0 if no signal did
  bool known = true;  ///< if not, another process has reaped it, and `code` is kUnknownCode

  bool well() const { return code == 0 && signal == 0; }
  /// Returns the exit code, or 128 + signal if a signal has killed the process, as a shell does.
  int shell_code() const { return signal == 0 ? code : 128 + signal; }
  /// Returns "exited with code 3" or "was killed by SIGSEGV".
  std::string text() const;
};

/// Starts a child whose standard input is `in`, or empty if `in` is below 0. Must be called on the
/// main thread, because the kernel kills the child when the calling thread ends. If the program
/// cannot be executed, the child writes the reason to its standard error and exits with 126 or 127.
/// Throws std::system_error if the process cannot be created.
Child spawn(const std::string& program, const std::vector<std::string>& arguments,
            const std::vector<std::string>& environment, int in = -1);

/// Returns whether the child has ended. For a child without a pidfd.
bool has_ended(const Child& child);

/// Requires that the child has ended. Kills the rest of the child's group, then reaps the child.
Exit reap(const Child& child);

/// Returns "SIGTERM", or "signal 42" if the signal has no name.
std::string signal_name(int number);

/// Raises the limit of open files to `files`, or to the hard limit if that is lower. A child that
/// spawn() starts still gets the former limit.
void raise_file_limit(std::size_t files);

}  // namespace c10dd::run
