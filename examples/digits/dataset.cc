// SPDX-License-Identifier: Apache-2.0
// Reads the digits and splits them.
#include "examples/digits/dataset.h"

#include <charconv>
#include <fstream>
#include <numeric>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace c10dd::digits {
namespace {

constexpr std::uint64_t kSplitSeed = 1998;
constexpr double kBrightest = 16;

/// Appends the image of one line. Returns what is wrong with it; empty: nothing.
std::string append_image(std::string_view line, Dataset& data) {
  for (std::size_t column = 0; column <= kPixels; ++column) {
    const bool is_label = column == kPixels;
    const unsigned limit = is_label ? kClasses - 1 : static_cast<unsigned>(kBrightest);
    const std::string_view field = line.substr(0, line.find(','));
    const char* const end = field.data() + field.size();
    unsigned value = 0;
    const auto [parsed, error] = std::from_chars(field.data(), end, value);
    if (error != std::errc{} || parsed != end || value > limit) {
      return "column " + std::to_string(column + 1) + " is \"" + std::string(field) +
             "\", not a number from 0 to " + std::to_string(limit);
    }
    if (is_label) {
      if (field.size() != line.size()) return "the line has more than 65 columns";
      data.labels.push_back(static_cast<std::uint8_t>(value));
      return {};
    }
    data.pixels.push_back(value / kBrightest);
    line.remove_prefix(field.size() == line.size() ? line.size() : field.size() + 1);
  }
  return {};
}

}  // namespace

Dataset Dataset::pick(std::span<const std::size_t> indices) const {
  Dataset chosen;
  chosen.labels.reserve(indices.size());
  chosen.pixels.reserve(indices.size() * kPixels);
  for (const std::size_t index : indices) {
    const auto first = pixels.begin() + static_cast<std::ptrdiff_t>(index * kPixels);
    chosen.pixels.insert(chosen.pixels.end(), first, first + kPixels);
    chosen.labels.push_back(labels[index]);
  }
  return chosen;
}

Dataset load_digits(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path + ": cannot read the file; set --data to digits.csv");
  Dataset data;
  std::string line;
  std::string wrong;
  std::size_t number = 0;
  while (wrong.empty() && std::getline(file, line)) {
    ++number;
    wrong = append_image(line, data);
  }
  if (!wrong.empty()) {
    throw std::runtime_error(path + ":" + std::to_string(number) + ": " + wrong);
  }
  if (data.size() < 2 * kClasses) {
    throw std::runtime_error(path + ": the file has " + std::to_string(data.size()) +
                             " images, but needs at least " + std::to_string(2 * kClasses));
  }
  return data;
}

Split split(const Dataset& all) {
  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937_64 generator(kSplitSeed);
  shuffle(order, generator);
  const std::size_t held_out = all.size() / 5;
  const std::span<const std::size_t> shuffled(order);
  return {.train = all.pick(shuffled.subspan(held_out)),
          .test = all.pick(shuffled.first(held_out))};
}

void shuffle(std::span<std::size_t> indices, std::mt19937_64& generator) {
  for (std::size_t i = indices.size(); i-- > 1;) {
    std::swap(indices[i], indices[generator() % (i + 1)]);
  }
}

}  // namespace c10dd::digits
