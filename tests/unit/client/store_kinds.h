// SPDX-License-Identifier: Apache-2.0
// All stores of the SDK, each over its real server, for the tests that hold for every one of them.
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "client/store.h"

namespace c10dd::test {

struct StoreKind {
  std::string name;
  /// A new empty store.
  std::function<std::shared_ptr<Store>()> make;
  /// Another handle of the store that make() has returned last, as another process has it. Null: a
  /// store has one handle.
  std::function<std::shared_ptr<Store>()> again = {};
  /// Why there is nothing to test: the server that is not installed. Empty: it is there.
  std::function<std::string()> absent = [] { return std::string(); };
  /// What the server cannot do. These operations fail with unsupported. Without "strict_add", add()
  /// takes a text that only begins with an integer, and may store a sum that has overflowed.
  std::set<std::string> lacks = {};
};

/// For GoogleTest, which would show the bytes.
// NOLINTNEXTLINE(readability-identifier-naming)
inline void PrintTo(const StoreKind& kind, std::ostream* out) { *out << kind.name; }

const std::vector<StoreKind>& store_kinds();

}  // namespace c10dd::test
