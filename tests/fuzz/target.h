// SPDX-License-Identifier: Apache-2.0
// Declares a fuzz target: C10DD_FUZZ(name) { ... return 0; } gets the input as `data` and `size`.
// With libFuzzer each target is a program of its own. Otherwise all targets are in one program,
// replay_main.cc, which finds them by their names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace c10dd::fuzz {

using Target = int (*)(const std::uint8_t* data, std::size_t size);

/// Returns the targets of this program by name.
inline std::map<std::string, Target, std::less<>>& targets() {
  static std::map<std::string, Target, std::less<>> all;
  return all;
}

}  // namespace c10dd::fuzz

#if C10DD_WITH_LIBFUZZER
#define C10DD_FUZZ(name) \
  extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
#else
#define C10DD_FUZZ(name)                                              \
  static int fuzz_##name(const std::uint8_t* data, std::size_t size); \
  [[maybe_unused]] static const bool added_##name =                   \
      c10dd::fuzz::targets().emplace(#name, &fuzz_##name).second;     \
  static int fuzz_##name(const std::uint8_t* data, std::size_t size)
#endif
