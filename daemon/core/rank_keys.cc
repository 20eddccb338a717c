// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/rank_keys.h"

#include <charconv>

namespace c10dd::core {
namespace {

std::optional<std::uint32_t> number(std::string_view digits) {
  std::uint32_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, failed] = std::from_chars(digits.data(), end, value);
  if (failed != std::errc() || stop != end) return std::nullopt;
  return value;
}

/// Takes the part behind the last '/' off the end of `key`. If there is no '/', takes everything.
std::string_view take_last(std::string_view& key) {
  const std::size_t slash = key.rfind('/');
  const std::string_view last = key.substr(slash + 1);
  key = slash == std::string_view::npos ? std::string_view() : key.substr(0, slash);
  return last;
}

}  // namespace

std::optional<std::uint32_t> rank_of_key(std::string_view key) {
  constexpr std::string_view kHostName = "rank_";
  std::string_view rest = key;
  std::string_view last = take_last(rest);
  if (last.starts_with(kHostName)) return number(last.substr(kHostName.size()));
  const std::optional<std::uint32_t> rank = number(last);
  if (!rank) return std::nullopt;
  if (rest.ends_with("/cuda/")) return 0;
  if (rest.ends_with("torchelastic/role_info")) return rank;
  const bool device = number(take_last(rest)).has_value();
  return device && rest.ends_with('/') ? rank : std::nullopt;
}

}  // namespace c10dd::core
