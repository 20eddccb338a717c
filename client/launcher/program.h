// SPDX-License-Identifier: Apache-2.0
// Finds the program of the workers before anything is started. Fails with the exit codes of a
// shell: 127 if there is no such program, 126 if it cannot be executed.
#pragma once

#include <string>

namespace c10dd::run {

/// Returns the path of the program `name`. `search` is the value of PATH. Throws Fatal.
std::string find_program(const std::string& name, const std::string& search);

/// Throws Fatal if the script cannot be read.
void check_script(const std::string& path);

}  // namespace c10dd::run
