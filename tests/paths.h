// SPDX-License-Identifier: Apache-2.0
// Where the tests find what they read and start. The paths are in one source, so that no other
// source is compiled again in another folder.
#pragma once

#include <string>

namespace c10dd::test {

/// Returns the folder of the programs: the variable C10DD_BIN, or bin/ of the build.
std::string bin_folder();

/// Returns the root of the sources.
std::string source_folder();

}  // namespace c10dd::test
