// SPDX-License-Identifier: Apache-2.0
// The commands of c10ddctl.
#pragma once

#include <string>

#include "client/ctl/arguments.h"

namespace c10dd::ctl {

struct Outcome {
  int code = 0;        ///< exit code
  std::string output;  ///< for standard output
  std::string error;   ///< for standard error; lines without the name of the program
};

/// Asks the daemons, and blocks until they have replied or their time is over. The texts are
/// printable, whatever the daemons have sent.
Outcome run(const Arguments& arguments);

}  // namespace c10dd::ctl
