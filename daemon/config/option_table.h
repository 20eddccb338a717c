// SPDX-License-Identifier: Apache-2.0
// The table of all options.
// To add an option: add a field in options.h and a line in option_table.cc; if its value has a new
// form, add the functions that read and print it in option_values.h or option_numbers.h.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "daemon/config/config_file.h"
#include "daemon/config/options.h"

namespace c10dd::daemon {

struct Option {
  std::string_view name;      ///< log_level is --log-level, C10DD_LOG_LEVEL and log_level in a file
  std::string_view value;     ///< placeholder of the value in the help; empty for a switch
  ConfigEntry::Form form;     ///< form of the value in a file
  std::string_view sentence;  ///< help text; lines end with \n
  Result<void> (*set)(Options&, const std::string&);  ///< fails if the text is not a valid value
  std::string (*get)(const Options&);                 ///< returns a text that set() accepts
};

std::span<const Option> all_options();

}  // namespace c10dd::daemon
