// SPDX-License-Identifier: Apache-2.0
// Texts with values in them, by fmt: format("rank {} of {}", rank, size). The compiler checks the
// text against its values. Not for public headers: a user of the SDK does not need fmt.
#pragma once

#include <fmt/core.h>

#include <string>

#include "protocol/error.h"

namespace c10dd {

namespace detail {
std::string format(fmt::string_view text, fmt::format_args values);
}

template <class... T>
std::string format(fmt::format_string<T...> text, T&&... values) {
  return detail::format(text, fmt::make_format_args(values...));
}

/// A Failure with such a text as its detail. At least one value: a text without any is passed to
/// the other failure(), which reads no braces.
template <class First, class... T>
Failure failure(Code code, fmt::format_string<First, T...> text, First&& first, T&&... values) {
  return failure(code, detail::format(text, fmt::make_format_args(first, values...)));
}

}  // namespace c10dd
