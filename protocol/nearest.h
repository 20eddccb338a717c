// SPDX-License-Identifier: Apache-2.0
// Finds the known word that a misspelt one is close to.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace c10dd {

/// Returns the known word that differs least from `word`, if by few letters; else an empty string.
std::string nearest(std::string_view word, std::span<const std::string> known);

}  // namespace c10dd
