// SPDX-License-Identifier: Apache-2.0
// docs/sdk.md says which exception each failure becomes. This test compares its table with
// throw_failure().
#include <cxxabi.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <typeinfo>

#include "client/errors.h"
#include "client/internal/throw_failure.h"
#include "tests/paths.h"

namespace c10dd::test {
namespace {

using Names = std::set<std::string>;

/// Returns the words in backquotes.
Names names_in(const std::string& cell) {
  Names names;
  for (std::size_t at = cell.find('`'); at != std::string::npos; at = cell.find('`', at)) {
    const std::size_t end = cell.find('`', at + 1);
    if (end == std::string::npos) break;
    names.insert(cell.substr(at + 1, end - at - 1));
    at = end + 1;
  }
  return names;
}

/// Returns the types of each code, from the table whose head has the columns type and code.
std::map<std::string, Names> types_of_page() {
  std::ifstream page(source_folder() + "/docs/sdk.md");
  std::map<std::string, Names> types;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (line == "| type | code | what to do |") inside = true;
    if (line.empty()) inside = false;
    if (!inside) continue;
    const std::size_t second = line.find('|', 1);
    const std::size_t third = line.find('|', second + 1);
    for (const std::string& code : names_in(line.substr(second, third - second))) {
      for (const std::string& type : names_in(line.substr(0, second))) types[code].insert(type);
    }
  }
  return types;
}

std::string thrown_for(Code code) {
  try {
    client::throw_failure(failure(code, "why"));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    const std::unique_ptr<char, decltype(&std::free)> name(
        abi::__cxa_demangle(typeid(error).name(), nullptr, nullptr, nullptr), &std::free);
    const std::string whole = name.get();
    return whole.substr(whole.rfind(':') + 1);
  }
  return "nothing";
}

TEST(ErrorsPage, NamesTheTypeOfEachCode) {
  const std::map<std::string, Names> page = types_of_page();
  std::map<std::string, Names> thrown;
  for (const CodeInfo& info : kCodes) {
    if (info.code != Code::ok) thrown[std::string(info.name)].insert(thrown_for(info.code));
  }
  EXPECT_EQ(page, thrown);
}

}  // namespace
}  // namespace c10dd::test
