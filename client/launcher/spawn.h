// SPDX-License-Identifier: Apache-2.0
// Starts a child in a process group of its own that dies with this process, and tells how it ended.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "client/internal/socket.h"

namespace c10dd::run {

struct Child {
  pid_t pid = -1;              ///< also the number of its process group
  client::Descriptor process;  ///< readable when it has ended
  client::Descriptor out;      ///< what it prints; non-blocking
  client::Descriptor error;
};

struct Exit {
  int code = 0;
  int signal = 0;  ///< that killed it; 0: none

  bool well() const { return code == 0 && signal == 0; }
  /// As a shell says it: 128 + signal for a killed one.
  int shell_code() const { return signal == 0 ? code : 128 + signal; }
  /// "exited with code 3", "was killed by SIGSEGV".
  std::string text() const;
};

/// Must be called on the main thread: the kernel kills the child when that thread ends. Its
/// standard input is empty. A program that cannot be executed ends with 126 or 127 and says why on
/// its standard error. Throws std::system_error when there is no room for another process.
Child spawn(const std::string& program, const std::vector<std::string>& arguments,
            const std::vector<std::string>& environment);

/// Takes the child's end. It must have ended; what is left of its group is killed first.
Exit reap(const Child& child);

/// "SIGTERM", or "signal 42".
std::string signal_name(int number);

/// Room for so many open files; children get the former limit back.
void raise_file_limit(std::size_t files);

}  // namespace c10dd::run
