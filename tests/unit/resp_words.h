// SPDX-License-Identifier: Apache-2.0
// Takes the commands of a Redis client apart, and writes replies, for servers that are not Redis.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

namespace c10dd::test {

/// Removes the first whole command from the input, and returns its words.
inline std::optional<std::vector<std::string>> take_resp_words(std::string& in) {
  std::size_t at = 0;
  const auto number = [&]() -> std::optional<std::size_t> {
    const std::size_t end = in.find("\r\n", at);
    if (end == std::string::npos) return std::nullopt;
    const std::size_t value = std::stoul(in.substr(at + 1, end - at - 1));
    at = end + 2;
    return value;
  };
  const auto count = number();
  std::vector<std::string> words;
  while (count && words.size() < *count) {
    const auto length = number();
    if (!length || in.size() < at + *length + 2) return std::nullopt;
    words.push_back(in.substr(at, *length));
    at += *length + 2;
  }
  if (!count) return std::nullopt;
  in.erase(0, at);
  return words;
}

inline std::string resp_text(const std::string& text) {
  return "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
}

/// An array of replies that are written already.
inline std::string resp_array(std::initializer_list<std::string> elements) {
  std::string all = "*" + std::to_string(elements.size()) + "\r\n";
  for (const std::string& element : elements) all += element;
  return all;
}

}  // namespace c10dd::test
