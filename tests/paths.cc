// SPDX-License-Identifier: Apache-2.0
#include "tests/paths.h"

#include <cstdlib>

namespace c10dd::test {

std::string bin_folder() {
  const char* folder = std::getenv("C10DD_BIN");
  return folder != nullptr ? folder : C10DD_DEFAULT_BIN;
}

std::string source_folder() { return C10DD_SOURCE; }

}  // namespace c10dd::test
