// SPDX-License-Identifier: Apache-2.0
// The handwritten digits: reads the file, splits off the test set, shuffles. The results are equal
// on every machine: they use only the raw output of std::mt19937_64, which the standard defines.
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

/// Images with their labels.
struct Dataset {
  std::vector<double> pixels;        ///< kPixels of each image, one image after the other, 0 to 1
  std::vector<std::uint8_t> labels;  ///< one for each image, 0 to 9

  std::size_t size() const { return labels.size(); }  ///< number of images
  /// Returns the images with these indices, in this order.
  Dataset pick(std::span<const std::size_t> indices) const;
};

struct Split {
  Dataset train;
  Dataset test;
};

/// Reads a file with one image per line: 64 pixels from 0 to 16 and the label from 0 to 9,
/// separated by commas. Throws std::runtime_error, which names file and line.
Dataset load_digits(const std::string& path);

/// Takes 20 % of the images as the test set; data/README.md defines which ones.
Split split(const Dataset& all);

/// Shuffles (Fisher-Yates): from the last element down, swaps each with the one whose index is the
/// next output modulo the number of elements that remain.
void shuffle(std::span<std::size_t> indices, std::mt19937_64& generator);

}  // namespace c10dd::digits
