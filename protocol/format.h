// SPDX-License-Identifier: Apache-2.0
// Formats texts with fmt: format("rank {} of {}", rank, size). The compiler checks that the values
// fit the text. Do not include this file in public headers: users of the SDK need not have fmt.
#pragma once

#include <fmt/core.h>

#include <string>

#include "protocol/error.h"

namespace c10dd {

namespace detail {
std::string format(fmt::string_view text, fmt::format_args values);
}

/// Returns the text with the values in place of the braces.
template <class... T>
std::string format(fmt::format_string<T...> text, T&&... values) {
  return detail::format(text, fmt::make_format_args(values...));
}

/// Returns a Failure with a formatted text as its detail. Needs at least one value. A call without
/// values selects the failure() of error.h. That function takes braces literally.
template <class First, class... T>
Failure failure(Code code, fmt::format_string<First, T...> text, First&& first, T&&... values) {
  return failure(code, detail::format(text, fmt::make_format_args(first, values...)));
}

}  // namespace c10dd
