// SPDX-License-Identifier: Apache-2.0
// A command line of c10drun, read as the launcher reads it.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "client/launcher/options.h"

namespace c10dd::run {

using Variables = std::map<std::string, std::string>;

inline Options parse(std::vector<const char*> arguments, const Variables& variables = {}) {
  arguments.insert(arguments.begin(), "c10drun");
  return parse_options(static_cast<int>(arguments.size()), arguments.data(),
                       [&](const char* name) -> const char* {
                         const auto it = variables.find(name);
                         return it == variables.end() ? nullptr : it->second.c_str();
                       })
      .options;
}

/// Returns why a command line is refused, or an empty text.
inline std::string refusal(const std::vector<const char*>& arguments,
                           const Variables& variables = {}) {
  try {
    parse(arguments, variables);
    return {};
  } catch (const Fatal& fatal) {
    EXPECT_EQ(fatal.code(), 64);
    return fatal.what();
  }
}

}  // namespace c10dd::run
