// SPDX-License-Identifier: Apache-2.0
// What is told of a job that is loaded.
#pragma once

#include <string>

#include "daemon/core/job.h"

namespace c10dd::daemon {

struct JobReport {
  std::string name;
  std::string run;
  JobNumber number = 0;
  Revision revision = 0;
  core::JobStats stats;
};

}  // namespace c10dd::daemon
