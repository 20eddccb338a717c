// SPDX-License-Identifier: Apache-2.0
// Counts what this process has open, so that a test can see what was not given back.
#pragma once

#include <cstddef>
#include <filesystem>
#include <iterator>

namespace c10dd::test {

/// Returns how many files a directory has. Opening the directory counts in /proc/self/fd.
inline std::size_t entries(const char* directory) {
  const std::filesystem::directory_iterator all(directory);
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

/// Returns how many threads this process has.
inline std::size_t threads_here() { return entries("/proc/self/task"); }

}  // namespace c10dd::test
