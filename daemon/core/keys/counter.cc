// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/keys/counter.h"

#include <algorithm>
#include <charconv>

#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd::core {
namespace {

constexpr std::size_t kKeyShown = 80;  // an error shows at most this many bytes of a key

Result<std::int64_t> sum_of(std::int64_t value, std::int64_t delta) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(value, delta, &sum)) {
    return failure(Code::out_of_range, "add: {} + {} overflows 64 bits; the value is unchanged",
                   value, delta);
  }
  return sum;
}

}  // namespace

std::optional<std::int64_t> number_at_start(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\n\v\f\r";
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  if (text.starts_with('+')) {
    text.remove_prefix(1);
    if (text.starts_with('-')) return std::nullopt;  // from_chars would read this second sign
  }
  std::int64_t value = 0;
  const auto [stop, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc()) return std::nullopt;
  return value;
}

Result<std::int64_t> add_to(std::string_view key, std::optional<std::string_view> text,
                            std::int64_t delta) {
  std::int64_t value = 0;
  if (text) {
    const char* end = text->data() + text->size();
    const auto [stop, failed] = std::from_chars(text->data(), end, value);
    if (failed != std::errc() || stop != end || text->empty()) {
      return not_a_counter(key, text->size());
    }
  }
  return sum_of(value, delta);
}

Result<std::int64_t> add_leniently(std::string_view key, std::optional<std::string_view> text,
                                   std::int64_t delta) {
  if (!text) return delta;
  if (const std::optional<std::int64_t> value = number_at_start(*text)) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(*value) +
                                     static_cast<std::uint64_t>(delta));
  }
  return failure(Code::invalid_argument,
                 "add: the value of key \"{}\" does not begin with a 64-bit integer ({} bytes)",
                 printable(key, kKeyShown), text->size());
}

Result<void> check_ttl(Duration ttl) {
  if (ttl == Duration::zero() || (ttl >= limits::kKeyTtlMin && ttl <= limits::kKeyTtlMax)) {
    return {};
  }
  return failure(Code::invalid_argument, "invalid time to live {}; use 0 (no expiry) or {} to {}",
                 human(ttl), human(limits::kKeyTtlMin), human(limits::kKeyTtlMax));
}

}  // namespace c10dd::core
