// SPDX-License-Identifier: Apache-2.0
// Reads the configuration file with toml++.
#include "daemon/config/config_file.h"

#include <algorithm>
#include <iomanip>
#include <sstream>

#include "daemon/config/file_text.h"
#include "daemon/config/toml_text.h"
#include "protocol/format.h"

namespace c10dd::daemon {
namespace {

ConfigEntry entry_of(const toml::node& node) {
  ConfigEntry entry;
  std::ostringstream type;
  type << node.type();
  entry.type = type.str();
  std::ostringstream text;
  if (node.is_string()) {
    entry.form = ConfigEntry::Form::text;
    text << *node.value<std::string>();
  } else if (node.is_boolean()) {
    entry.form = ConfigEntry::Form::boolean;
    text << (*node.value<bool>() ? "true" : "false");
  } else if (node.is_number()) {
    entry.form = ConfigEntry::Form::number;
    text << std::setprecision(15) << *node.value<double>();
  }
  entry.text = text.str();
  return entry;
}

}  // namespace

Result<std::vector<ConfigEntry>> read_config(const std::string& path) {
  const Result<std::string> text = file_text(path, "config " + path);
  if (!text) return text.error();
  const Result<toml::table> table =
      parse_toml(*text, "config " + path, "write each option as a line key = value");
  if (!table) return table.error();
  // toml++ sorts the keys by name. This function sorts the entries by line.
  std::vector<std::pair<toml::source_index, ConfigEntry>> by_line;
  for (const auto& [key, node] : *table) {
    ConfigEntry entry = entry_of(node);
    entry.where = format("config {}:{}", path, key.source().begin.line);
    entry.key = std::string(key.str());
    by_line.emplace_back(key.source().begin.line, std::move(entry));
  }
  std::stable_sort(by_line.begin(), by_line.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<ConfigEntry> entries;
  for (auto& [line, entry] : by_line) entries.push_back(std::move(entry));
  return entries;
}

std::string toml_string(const std::string& text) {
  std::ostringstream quoted;
  const toml::value<std::string> value(text);
  quoted << toml::toml_formatter(value, toml::format_flags::none);
  return quoted.str();
}

}  // namespace c10dd::daemon
