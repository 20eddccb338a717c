// SPDX-License-Identifier: Apache-2.0
// Counts the instructions that a server executes in user space, with valgrind's callgrind. Unlike a
// time, the count hardly depends on what else the machine does.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "tests/unit/temporary_directory.h"

namespace c10dd::bench {

/// The instructions of one function, without those of the functions that it calls.
struct FunctionCost {
  std::string library;  ///< file name of the program or shared library
  std::string function;
  std::uint64_t instructions = 0;
};

/// Reads a profile in callgrind's format, written with uncompressed names and positions. The format
/// is described in valgrind's manual, "Callgrind Format Specification". Throws std::runtime_error
/// if a line is not understood.
std::vector<FunctionCost> read_costs(std::istream& profile);

class Callgrind {
 public:
  /// Returns the command that a server's command must follow, so that the server can be counted.
  std::vector<std::string> command() const;

  /// Starts to count from zero. Throws std::runtime_error if the process does not run under
  /// command().
  void zero(pid_t process) const;

  /// Returns what was counted since zero(), or since the last call. Throws as zero() does.
  std::vector<FunctionCost> take(pid_t process);

 private:
  std::string file() const { return directory_.path() + "/profile"; }

  TemporaryDirectory directory_;
  unsigned taken_ = 0;
};

}  // namespace c10dd::bench
