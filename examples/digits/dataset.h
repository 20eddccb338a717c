// SPDX-License-Identifier: Apache-2.0
// The handwritten digits: reads the file, holds out the test set, shuffles. Equal on every machine:
// only the raw output of std::mt19937_64 is used, which the standard fixes to the bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace c10dd::digits {

inline constexpr std::size_t kPixels = 64;
inline constexpr std::size_t kClasses = 10;

/// Images one after the other, pixels scaled to 0 .. 1.
struct Dataset {
  std::vector<double> pixels;
  std::vector<std::uint8_t> labels;

  std::size_t size() const { return labels.size(); }
  /// The chosen images, in this order.
  Dataset pick(std::span<const std::size_t> indices) const;
};

struct Split {
  Dataset train;
  Dataset test;
};

/// One image a line: 64 pixels 0 to 16 and the label 0 to 9, comma separated. Throws
/// std::runtime_error that names file and line.
Dataset load_digits(const std::string& path);

/// Holds out 20 %; which images, data/README.md says.
Split split(const Dataset& all);

/// Fisher-Yates from the last element down, each partner being the next output modulo the
/// number of elements left.
void shuffle(std::span<std::size_t> indices, std::mt19937_64& generator);

}  // namespace c10dd::digits
