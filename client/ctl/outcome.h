// SPDX-License-Identifier: Apache-2.0
// What a command of c10ddctl ends with.
#pragma once

#include <string>

namespace c10dd::ctl {

struct Outcome {
  int code = 0;        ///< exit code
  std::string output;  ///< for standard output
  std::string error;   ///< for standard error; lines without the name of the program
};

}  // namespace c10dd::ctl
