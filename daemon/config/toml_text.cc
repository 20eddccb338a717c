// SPDX-License-Identifier: Apache-2.0
#include "daemon/config/toml_text.h"

#include <algorithm>
#include <optional>

#include "protocol/format.h"
#include "protocol/utf8.h"

namespace c10dd::daemon {
namespace {

constexpr std::size_t kNesting = 32;  // of tables and arrays

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

}  // namespace

Result<toml::table> parse_toml(std::string_view text, const std::string& what,
                               std::string_view cure) {
  if (const auto line = NestingScan(text).too_deep()) {
    return failure(Code::invalid_argument,
                   "{}:{}: values are nested deeper than the limit of {} levels; {}", what, *line,
                   kNesting, cure);
  }
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    return failure(Code::invalid_argument, "{}:{}: this is not valid TOML: {}", what,
                   error.source().begin.line, printable(std::string(error.description()), 200));
  }
}

}  // namespace c10dd::daemon
