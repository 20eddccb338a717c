// SPDX-License-Identifier: Apache-2.0
// Every option once.
// To add one: a field in options.h, its form in option_values.h or option_numbers.h, a line in
// option_table.cc.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "daemon/config/config_file.h"
#include "daemon/config/options.h"

namespace c10dd::daemon {

struct Option {
  std::string_view name;   ///< log_level is --log-level, C10DD_LOG_LEVEL and log_level in a file
  std::string_view value;  ///< its form in the help; empty for a switch
  ConfigEntry::Form form;
  std::string_view sentence;
  Result<void> (*set)(Options&, const std::string&);  ///< checks; the failure names the text
  std::string (*get)(const Options&);
};

std::span<const Option> all_options();

}  // namespace c10dd::daemon
