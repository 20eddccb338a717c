// SPDX-License-Identifier: Apache-2.0
#include "protocol/nearest.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace c10dd {
namespace {

/// Returns the edit distance: how many letters have to be changed, inserted or deleted.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);  // row[j]: distance of a[0, i) from b[0, j)
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string nearest(std::string_view word, std::span<const std::string> known) {
  const auto best =
      std::min_element(known.begin(), known.end(), [&](const auto& one, const auto& other) {
        return distance(word, one) < distance(word, other);
      });
  // Allows one wrong letter, and one more for every five letters of the known word.
  if (best == known.end() || distance(word, *best) > 1 + best->size() / 5) return {};
  return *best;
}

}  // namespace c10dd
