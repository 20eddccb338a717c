// SPDX-License-Identifier: Apache-2.0
// What a name may be: that of a job, a run, a group or an endpoint. Two names that look alike
// should be one name, so a name has nothing that cannot be seen.
#pragma once

#include <string_view>

#include "protocol/error.h"

namespace c10dd {

/// Fails with invalid_argument if a text is no name. A name has 1 to limits::kNameBytes bytes of
/// UTF-8, no blank at its begin or end, and no control character, no character without a width,
/// none that changes the direction of text, and no code point that Unicode keeps free of
/// characters. `what` is for the error: "job".
Result<void> check_name(std::string_view what, std::string_view name);

/// Returns the same, but the name may be empty.
Result<void> check_name_or_none(std::string_view what, std::string_view name);

}  // namespace c10dd
