// SPDX-License-Identifier: Apache-2.0
// JSON as text with numbers as people write them: 4.98, not 4.98E0.
#pragma once

#include <string>

namespace boost::json {
class value;
}

namespace c10dd::json {

/// What is no number in JSON, as infinity, becomes null.
std::string text_of(const boost::json::value& value);

}  // namespace c10dd::json
