// SPDX-License-Identifier: Apache-2.0
// The one file with fmt's definitions: nobody links another library.
#define FMT_HEADER_ONLY
#include "protocol/format.h"

#include <fmt/format.h>

namespace c10dd::detail {

std::string format(fmt::string_view text, fmt::format_args values) {
  return fmt::vformat(text, values);
}

}  // namespace c10dd::detail
