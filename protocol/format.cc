// SPDX-License-Identifier: Apache-2.0
// The only file that compiles fmt's definitions, so that no target links the library fmt.
#define FMT_HEADER_ONLY
#include "protocol/format.h"

#include <fmt/format.h>

namespace c10dd::detail {

std::string format(fmt::string_view text, fmt::format_args values) {
  return fmt::vformat(text, values);
}

}  // namespace c10dd::detail
