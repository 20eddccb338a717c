// SPDX-License-Identifier: Apache-2.0
// Which known word was meant.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace c10dd {

/// The known word that differs from `word` by few letters; empty when none does.
std::string nearest(std::string_view word, std::span<const std::string> known);

}  // namespace c10dd
