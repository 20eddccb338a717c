// SPDX-License-Identifier: Apache-2.0
// Parses TOML from files that anybody may have written.
#pragma once

#include <toml++/toml.h>

#include <string>
#include <string_view>

#include "protocol/error.h"

namespace c10dd::daemon {

/// Fails with invalid_argument if the text is not TOML, or nests values so deep that the parser
/// could exhaust the stack. The failure begins with `what` and the line; `cure` ends the one about
/// nesting.
Result<toml::table> parse_toml(std::string_view text, const std::string& what,
                               std::string_view cure);

}  // namespace c10dd::daemon
