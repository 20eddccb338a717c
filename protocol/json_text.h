// SPDX-License-Identifier: Apache-2.0
// Writes JSON as text. Numbers are written in the usual form: 4.98, not 4.98E0.
#pragma once

#include <string>

namespace boost::json {
class value;
}

namespace c10dd::json {

/// Returns a value as text. Infinities and NaN, which JSON does not have, become null.
std::string text_of(const boost::json::value& value);

}  // namespace c10dd::json
