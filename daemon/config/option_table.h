// SPDX-License-Identifier: Apache-2.0
// The table of all options.
// To add an option, add a field in options.h and a line in option_table.cc. If no function reads or
// prints such a value yet, add one in option_values.h or option_numbers.h.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "daemon/config/config_file.h"
#include "daemon/config/options.h"

namespace c10dd::daemon {

struct Option {
  std::string_view name;      ///< the TOML key, such as log_level for the flag --log-level
  std::string_view value;     ///< placeholder of the value in the help; empty for a switch
  ConfigEntry::Form form;     ///< type of the value in the TOML file
  std::string_view sentence;  ///< help text; lines end with \n
  Result<void> (*set)(Options&, const std::string&);  ///< fails if the text is not a valid value
  std::string (*get)(const Options&);                 ///< returns a text that set() accepts
};

std::span<const Option> all_options();

}  // namespace c10dd::daemon
