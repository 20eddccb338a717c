// SPDX-License-Identifier: Apache-2.0
// Finds the known word that is closest to a misspelt word.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace c10dd {

/// Returns the known word that differs least from `word`, or an empty string if they differ too
/// much.
std::string nearest(std::string_view word, std::span<const std::string> known);

}  // namespace c10dd
