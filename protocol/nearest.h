// SPDX-License-Identifier: Apache-2.0
// Finds the known word that is closest to a misspelt word.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace c10dd {

/// Returns the known word that is closest to `word`, or an empty string if no word is close.
std::string nearest(std::string_view word, std::span<const std::string> known);

}  // namespace c10dd
