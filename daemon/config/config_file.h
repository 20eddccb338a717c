// SPDX-License-Identifier: Apache-2.0
// Reads the TOML file as a list of keys and values. Only options.cc knows what the keys mean.
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
  std::string type;  ///< the name of the TOML type, e.g. "integer"
  std::string text;  ///< the value (a string without quotes); empty for Form::other
};

/// Returns the entries in the order of their lines. A failure names the file and, if the text is
/// not TOML, the line.
Result<std::vector<ConfigEntry>> read_config(const std::string& path);

/// Returns `text` as a TOML string with quotes and escapes.
std::string toml_string(const std::string& text);

}  // namespace c10dd::daemon
