// SPDX-License-Identifier: Apache-2.0
// The pages for people have the same tables as the headers: operations, answers and codes of
// protocol/PROTOCOL.md, exit codes. A row that differs is printed as it should be; what stands in
// brackets behind a field is for people only.
#include <gtest/gtest.h>

#include <boost/describe/members.hpp>
#include <boost/mp11/algorithm.hpp>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include "protocol/codes.h"
#include "protocol/exit_codes.h"
#include "protocol/ops.h"
#include "tests/paths.h"

namespace c10dd {
namespace {

using Cells = std::vector<std::string>;

std::string page(const std::string& path) {
  std::ifstream file(test::source_folder() + "/" + path);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(' ');
  return first == std::string::npos ? ""
                                    : text.substr(first, text.find_last_not_of(' ') - first + 1);
}

/// Removes texts in parentheses, with the blank before them.
std::string without_notes(const std::string& text) {
  std::string out;
  int depth = 0;
  for (const char c : text) {
    if (c == '(' && depth++ == 0 && out.ends_with(' ')) out.pop_back();
    if (depth == 0) out += c;
    if (c == ')') --depth;
  }
  return out;
}

/// Returns the rows of the first table whose head begins with `head`.
std::vector<Cells> table(const std::string& text, const std::string& head) {
  std::istringstream in(text.substr(std::min(text.find(head), text.size())));
  std::vector<Cells> rows;
  for (std::string line; std::getline(in, line) && line.starts_with("|");) {
    Cells cells;
    std::istringstream row(line.substr(1));
    for (std::string cell; std::getline(row, cell, '|');) cells.push_back(trimmed(cell));
    rows.push_back(cells);
  }
  rows.erase(rows.begin(), rows.begin() + std::min<std::ptrdiff_t>(2, std::ssize(rows)));
  return rows;
}

template <class T>
constexpr std::string_view type_name() {
  const std::string_view all = __PRETTY_FUNCTION__;
  const auto begin = all.find("T = ") + 4;
  const auto name = all.substr(begin, all.find_first_of(";]", begin) - begin);
  return name.substr(name.rfind(':') + 1);
}

template <class T>
struct Wire {
  static std::string name() {
    if constexpr (std::is_enum_v<T>) return "enum";
    if constexpr (std::is_same_v<T, bool>) return "bool";
    if constexpr (std::is_same_v<T, Duration>) return "duration";
    if constexpr (std::is_same_v<T, SessionId>) return "session";
    if constexpr (std::is_same_v<T, Stamp>) return "stamp";
    if constexpr (std::is_same_v<T, std::string> || std::is_same_v<T, Blob>) return "bytes";
    if constexpr (std::is_same_v<T, SharedBytes>) return "bytes";
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      return (std::is_signed_v<T> ? "i" : "u") + std::to_string(8 * sizeof(T));
    }
    return std::string(type_name<T>());
  }
};
template <class T>
struct Wire<std::vector<T>> {
  static std::string name() { return "list\\<" + Wire<T>::name() + "\\>"; }
};
template <class K, class V>
struct Wire<std::map<K, V>> {
  static std::string name() { return "map"; }
};

/// "key bytes, ttl duration": the fields in their order on the wire.
template <class T>
std::string fields_of() {
  std::string text;
  using Members = boost::describe::describe_members<T, boost::describe::mod_any_access>;
  boost::mp11::mp_for_each<Members>([&](auto member) {
    using Type = std::remove_cvref_t<decltype(std::declval<T>().*member.pointer)>;
    text += (text.empty() ? "" : ", ") + std::string(member.name) + " " + Wire<Type>::name();
  });
  return text;
}

std::string joined(const Cells& cells) {
  std::string text = "|";
  for (const std::string& cell : cells) text += cell.empty() ? " |" : " " + cell + " |";
  return text;
}

/// Compares row by row, without the texts in parentheses, which are for people.
void expect_rows(const std::vector<Cells>& expected, const std::vector<Cells>& rows) {
  ASSERT_EQ(expected.size(), rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Cells bare;
    for (const std::string& cell : rows[i]) bare.push_back(without_notes(cell));
    bare.resize(expected[i].size());
    EXPECT_EQ(joined(expected[i]), joined(bare));
  }
}

TEST(Pages, ProtocolHasTheOperations) {
  constexpr const char* kKinds[] = {"read", "write", "wait", "event"};
  constexpr const char* kDedups[] = {"-", "reply", "delivery", "arrival"};
  std::vector<Cells> expected;
  for_each_op([&]<class Op>(std::type_identity<Op>) {
    expected.push_back({std::to_string(Op::op.code), std::string(Op::op.name),
                        kKinds[static_cast<std::size_t>(Op::op.kind)],
                        kDedups[static_cast<std::size_t>(Op::op.dedup)], fields_of<Op>(),
                        std::string(type_name<typename Op::Body>())});
  });
  expect_rows(expected, table(page("protocol/PROTOCOL.md"), "| op | name |"));
}

TEST(Pages, ProtocolHasTheAnswers) {
  std::vector<Cells> expected;
  boost::mp11::mp_for_each<boost::mp11::mp_transform<std::type_identity, detail::AnyReply>>(
      [&]<class Body>(std::type_identity<Body>) {
        expected.push_back({std::string(type_name<Body>()), fields_of<Body>()});
      });
  expect_rows(expected, table(page("protocol/PROTOCOL.md"), "| reply | fields |"));
}

TEST(Pages, ProtocolHasTheCodes) {
  std::vector<Cells> expected;
  for (const CodeInfo& info : kCodes) {
    if (info.code == Code::ok) continue;
    expected.push_back({std::to_string(static_cast<int>(info.code)), std::string(info.name)});
  }
  expect_rows(expected, table(page("protocol/PROTOCOL.md"), "| | code | means |"));
}

/// The numbers of a table of exit codes; a row may have several.
std::set<int> exit_codes_of(const std::string& path) {
  std::set<int> codes;
  for (const Cells& row : table(page(path), "| code | mean")) {
    int code = 0;
    char rest = 0;
    std::istringstream cell(row.front());
    if (cell >> code && !(cell >> rest)) codes.insert(code);
  }
  return codes;
}

TEST(Pages, ExitCodesOfTheDaemon) {
  const std::set<int> expected(exit_code::kDaemon.begin(), exit_code::kDaemon.end());
  EXPECT_EQ(exit_codes_of("deploy/README.md"), expected);
}

TEST(Pages, ExitCodesOfTheLauncher) {
  const std::set<int> expected(exit_code::kLauncher.begin(), exit_code::kLauncher.end());
  EXPECT_EQ(exit_codes_of("docs/c10drun.md"), expected);
}

TEST(Pages, ExitCodesOfTheControlProgram) {
  const std::set<int> expected(exit_code::kControl.begin(), exit_code::kControl.end());
  EXPECT_EQ(exit_codes_of("docs/c10ddctl.md"), expected);
}

}  // namespace
}  // namespace c10dd
