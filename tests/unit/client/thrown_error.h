// SPDX-License-Identifier: Apache-2.0
// What a call throws, and whether its text says something.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>

#include "client/errors.h"

namespace c10dd::test {

/// Returns the code and the text of the error that f throws.
inline std::pair<Code, std::string> error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return {e.code(), e.what()};
  }
  return {Code::ok, "no error"};
}

inline testing::AssertionResult has(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "\"" << part << "\" is not in: " << text;
}

}  // namespace c10dd::test
