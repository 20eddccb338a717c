// SPDX-License-Identifier: Apache-2.0
// Finds the servers that a test starts, as the shell would.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <sstream>
#include <string>

namespace c10dd::test {

/// Returns the path of a program; empty if no folder of PATH has it.
inline std::string installed_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "/usr/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string file = folder + "/" + name;
    if (::access(file.c_str(), X_OK) == 0) return file;
  }
  return {};
}

}  // namespace c10dd::test
