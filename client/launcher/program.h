// SPDX-License-Identifier: Apache-2.0
// Finds the program of the workers before anything else is done, as a shell would: 127 for none,
// 126 for one that cannot be executed.
#pragma once

#include <string>

namespace c10dd::run {

/// The path to execute. `search`: the value of PATH. Throws Fatal with what was searched.
std::string find_program(const std::string& name, const std::string& search);

/// Throws Fatal, as a shell would end, when there is no such script to read.
void check_script(const std::string& path);

}  // namespace c10dd::run
