// SPDX-License-Identifier: Apache-2.0
// The example's arithmetic and its split of the data, which other examples repeat.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <numeric>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "examples/digits/dataset.h"
#include "examples/digits/network.h"
#include "examples/digits/training.h"

namespace c10dd::digits {
namespace {

/// Image i has the pixels i, 0, 0, ... and the label i mod 10.
Dataset numbered_images(std::size_t count) {
  Dataset data;
  for (std::size_t i = 0; i < count; ++i) {
    data.pixels.push_back(static_cast<double>(i));
    data.pixels.resize(data.pixels.size() + kPixels - 1);
    data.labels.push_back(static_cast<std::uint8_t>(i % kClasses));
  }
  return data;
}

std::vector<std::size_t> numbers_of(const Dataset& data) {
  std::vector<std::size_t> numbers;
  for (std::size_t i = 0; i < data.size(); ++i) {
    numbers.push_back(static_cast<std::size_t>(data.pixels[i * kPixels]));
  }
  return numbers;
}

TEST(DigitsSplit, HoldsOutTheImagesThatItsPageNames) {
  const Split parts = split(numbered_images(1797));
  std::vector<std::size_t> test = numbers_of(parts.test);
  ASSERT_EQ(test.size(), 359);
  EXPECT_EQ(std::vector(test.begin(), test.begin() + 5),
            (std::vector<std::size_t>{1255, 1395, 354, 700, 1204}));

  std::vector<std::size_t> all = numbers_of(parts.train);
  EXPECT_EQ(all.size(), 1438);
  all.insert(all.end(), test.begin(), test.end());
  std::sort(all.begin(), all.end());
  std::vector<std::size_t> expected(1797);
  std::iota(expected.begin(), expected.end(), std::size_t{0});
  EXPECT_EQ(all, expected);
}

class DigitsFile : public testing::Test {
 protected:
  std::string error_of(const std::string& text) {
    const std::string path = testing::TempDir() + "digits_" + std::to_string(getpid()) + ".csv";
    std::ofstream(path) << text;
    std::string error;
    try {
      load_digits(path);
    } catch (const std::runtime_error& wrong) {
      error = std::string(wrong.what()).substr(path.size());
    }
    std::remove(path.c_str());
    return error;
  }

  static std::string line(const std::string& last) {
    std::string text;
    for (std::size_t i = 0; i < kPixels; ++i) text += "16,";
    return text + last;
  }
};

TEST_F(DigitsFile, IsRefusedWithLineAndColumn) {
  EXPECT_EQ(error_of(line("9\n") + line("10\n")),
            ":2: column 65 is \"10\", not a number from 0 to 9");
  EXPECT_EQ(error_of(line("9,1\n")), ":1: the line has more than 65 columns");
  EXPECT_EQ(error_of("1,2,17\n"), ":1: column 3 is \"17\", not a number from 0 to 16");
  EXPECT_EQ(error_of("1,2\n"), ":1: column 3 is \"\", not a number from 0 to 16");
  EXPECT_EQ(error_of(line("9\n") + "\n"), ":2: column 1 is \"\", not a number from 0 to 16");
  EXPECT_EQ(error_of(""), ": the file has 0 images, but needs at least 20");
}

TEST(DigitsNetwork, GradientsAgreeWithFiniteDifferences) {
  constexpr double kStep = 1e-6;
  constexpr double kScale = 0.25;
  Network network({6, 5, 4, 3}, 7);
  std::mt19937_64 generator(11);
  std::vector<double> pixels(6 * 8);
  for (double& pixel : pixels) pixel = static_cast<double>(generator() % 1000) / 1000;
  const std::vector<std::uint8_t> labels = {0, 1, 2, 0, 1, 2, 2, 0};
  const Batch batch = {.pixels = pixels, .labels = labels};

  Solo memory(network);
  std::vector<std::size_t> order;
  network.forward(batch);
  network.backward(batch, kScale, memory.gradients(),
                   [&order](std::size_t parameter) { order.push_back(parameter); });
  EXPECT_EQ(order, (std::vector<std::size_t>{5, 4, 3, 2, 1, 0}));

  for (std::size_t i = 0; i < network.parameters().size(); ++i) {
    std::vector<double>& value = network.parameters()[i].value;
    for (std::size_t j = 0; j < value.size(); ++j) {
      const double before = value[j];
      value[j] = before + kStep;
      const double above = network.forward(batch);
      value[j] = before - kStep;
      const double below = network.forward(batch);
      value[j] = before;
      EXPECT_NEAR(memory.gradients()[i][j], kScale * (above - below) / (2 * kStep), 1e-7)
          << network.parameters()[i].name << " element " << j;
    }
  }
}

TEST(DigitsNetwork, DescendsWithMomentum) {
  Network network({1, 1}, 1);
  network.parameters()[0].value = {10};
  network.parameters()[1].value = {20};
  double bias = 2;
  double weight = 4;
  double* const gradients[] = {&bias, &weight};
  network.descend(gradients, 0.5, 0.9);
  network.descend(gradients, 0.5, 0.9);
  EXPECT_DOUBLE_EQ(network.parameters()[0].value[0], 10 - 0.5 * 2 - 0.5 * (0.9 * 2 + 2));
  EXPECT_DOUBLE_EQ(network.parameters()[1].value[0], 20 - 0.5 * 4 - 0.5 * (0.9 * 4 + 4));
}

TEST(DigitsHash, SeesASingleBit) {
  const Network network({3, 2}, 5);
  std::vector<Parameter> parameters = network.parameters();
  const std::uint64_t before = hash(parameters);
  double& weight = parameters.back().value.back();
  weight = std::nextafter(weight, 1.0);
  EXPECT_NE(hash(parameters), before);
}

}  // namespace
}  // namespace c10dd::digits
