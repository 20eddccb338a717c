// SPDX-License-Identifier: Apache-2.0
// The TOML file as lines of key and value. What the keys mean is known to options.cc only.
#pragma once

#include <string>
#include <vector>

#include "protocol/error.h"

namespace c10dd::daemon {

struct ConfigEntry {
  enum class Form { text, number, boolean, other };

  std::string where;  ///< "config FILE:LINE"
  std::string key;
  Form form = Form::other;
  std::string type;  ///< as TOML calls it
  std::string text;  ///< of text without quotes; empty for other
};

/// The entries in the order of their lines; a failure names file and line.
Result<std::vector<ConfigEntry>> read_config(const std::string& path);

/// Text as a TOML string.
std::string toml_string(const std::string& text);

}  // namespace c10dd::daemon
