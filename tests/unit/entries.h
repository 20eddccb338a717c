// SPDX-License-Identifier: Apache-2.0
// Counts what this process has open, so that a test can see what was not given back.
#pragma once

#include <dirent.h>

#include <cstddef>

namespace c10dd::test {

/// Returns how many entries a directory has, with "." and ".."; in /proc/self/fd also the one by
/// which it is read. The directory must exist.
inline std::size_t entries(const char* directory) {
  std::size_t count = 0;
  DIR* const open = opendir(directory);
  while (readdir(open) != nullptr) ++count;
  closedir(open);
  return count;
}

/// Returns how many threads this process has.
inline std::size_t threads_here() { return entries("/proc/self/task"); }

}  // namespace c10dd::test
