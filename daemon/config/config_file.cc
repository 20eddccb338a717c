// SPDX-License-Identifier: Apache-2.0
// Reads the configuration file with toml++.
#include "daemon/config/config_file.h"

#include <toml++/toml.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iomanip>
#include <optional>
#include <sstream>

#include "protocol/format.h"
#include "protocol/utf8.h"

namespace c10dd::daemon {
namespace {

constexpr std::size_t kFileBytes = 1024 * 1024;
constexpr std::size_t kNesting = 32;  ///< of tables and arrays; the options need one level

/// Returns the bytes of the file. Fails if the file cannot be read or is longer than kFileBytes.
Result<std::string> read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kFileBytes + 1, '\0');
  if (file) file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file && !file.eof()) {
    return failure(Code::invalid_argument, "config {}: cannot read this file: {}", path,
                   std::strerror(errno));
  }
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kFileBytes) {
    return failure(Code::invalid_argument,
                   "config {}: this file is longer than the limit of {} bytes", path, kFileBytes);
  }
  return text;
}

/// Finds where a text nests its values deeper than kNesting, before the parser, whose calls nest as
/// deep as the values, reads it. Counts the dots of a key like brackets and braces. Skips strings
/// and comments. Where the text is not TOML, the parser stops before it comes to a text that is
/// read otherwise here.
class NestingScan {
 public:
  explicit NestingScan(std::string_view text) : text_(text) {}

  /// Returns the number of the first line that is too deep, or nothing.
  std::optional<std::size_t> too_deep() {
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '"' || c == '\'') {
        skip_string(c);
      } else if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size()) - 1;
      } else if (c == '[' || c == '{') {
        ++brackets_;
        dots_ = 0;
      } else if (c == ']' || c == '}') {
        if (brackets_ > 0) --brackets_;
        dots_ = 0;
      } else if (c == '.') {
        ++dots_;
      } else if (c == '=' || c == ',' || c == '\n') {
        dots_ = 0;
      }
      if (brackets_ + dots_ > kNesting) {
        return 1 + static_cast<std::size_t>(std::ranges::count(text_.substr(0, at_), '\n'));
      }
    }
    return std::nullopt;
  }

 private:
  /// Moves to the last character of a string, or of the line if the string does not end in it.
  void skip_string(char quote) {
    const std::string three(3, quote);
    const bool many_lines = text_.substr(at_).starts_with(three);
    const std::string end = many_lines ? three : std::string(1, quote);
    for (at_ += end.size(); at_ < text_.size(); ++at_) {
      if (text_.substr(at_).starts_with(end)) break;
      if (text_[at_] == '\n' && !many_lines) break;
      if (text_[at_] == '\\' && quote == '"') ++at_;
    }
    if (!many_lines) return;
    at_ += end.size() - 1;
    // A string of many lines may end with one or two quotes of its own.
    for (int own = 0; own < 2 && at_ + 1 < text_.size() && text_[at_ + 1] == quote; ++own) ++at_;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t brackets_ = 0;  ///< open ones
  std::size_t dots_ = 0;      ///< of the current key
};

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
  const Result<std::string> text = read(path);
  if (!text) return text.error();
  if (const auto line = NestingScan(*text).too_deep()) {
    return failure(Code::invalid_argument,
                   "config {}:{}: values are nested deeper than the limit of {} levels; write each "
                   "option as a line key = value",
                   path, *line, kNesting);
  }
  const auto where = [&](const toml::source_region& region) {
    return format("config {}:{}", path, region.begin.line);
  };
  // toml++ sorts the keys by name. This function sorts the entries by line.
  std::vector<std::pair<toml::source_index, ConfigEntry>> by_line;
  try {
    const toml::table table = toml::parse(*text, path);
    for (const auto& [key, node] : table) {
      ConfigEntry entry = entry_of(node);
      entry.where = where(key.source());
      entry.key = std::string(key.str());
      by_line.emplace_back(key.source().begin.line, std::move(entry));
    }
  } catch (const toml::parse_error& error) {
    return failure(Code::invalid_argument, "{}: this is not valid TOML: {}", where(error.source()),
                   printable(std::string(error.description()), 200));
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
