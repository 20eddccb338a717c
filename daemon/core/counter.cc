// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/counter.h"

#include <charconv>

#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/wording.h"

namespace c10dd::core {

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
  std::int64_t sum = 0;
  if (__builtin_add_overflow(value, delta, &sum)) {
    return failure(Code::out_of_range, "add: {} + {} overflows 64 bits; the value is unchanged",
                   value, delta);
  }
  return sum;
}

Result<void> check_ttl(Duration ttl) {
  if (ttl == Duration::zero() || (ttl >= limits::kKeyTtlMin && ttl <= limits::kKeyTtlMax)) {
    return {};
  }
  return failure(Code::invalid_argument, "invalid time to live {}; use 0 (no expiry) or {} to {}",
                 human(ttl), human(limits::kKeyTtlMin), human(limits::kKeyTtlMax));
}

}  // namespace c10dd::core
