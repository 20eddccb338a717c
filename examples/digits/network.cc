// SPDX-License-Identifier: Apache-2.0
// The arithmetic of the network. Only this file uses Eigen. Matrices have one column per image.
#include "examples/digits/network.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <utility>

namespace c10dd::digits {
namespace {

using Matrix = Eigen::Map<Eigen::MatrixXd>;
using Vector = Eigen::Map<Eigen::VectorXd>;
using ConstMatrix = Eigen::Map<const Eigen::MatrixXd>;
using ConstVector = Eigen::Map<const Eigen::VectorXd>;

Eigen::Index index(std::size_t value) { return static_cast<Eigen::Index>(value); }

/// Returns a matrix in `data`, which it resizes first.
Matrix make_matrix(std::vector<double>& data, std::size_t rows, std::size_t columns) {
  data.resize(rows * columns);
  return {data.data(), index(rows), index(columns)};
}

ConstMatrix matrix(std::span<const double> data, std::size_t rows, std::size_t columns) {
  return {data.data(), index(rows), index(columns)};
}

ConstVector vector(std::span<const double> data) { return {data.data(), index(data.size())}; }

/// Returns a number in [-1, 1) from the upper 53 bits. The distributions of the standard library
/// would give other numbers with another library.
double uniform(std::mt19937_64& generator) {
  constexpr double kUnit = 1.0 / (std::uint64_t{1} << 52);
  return static_cast<double>(generator() >> 11) * kUnit - 1;
}

std::size_t bias_of(std::size_t layer) { return 2 * layer; }
std::size_t weight_of(std::size_t layer) { return 2 * layer + 1; }

/// Turns each column into probabilities. Subtracts its maximum first, so that exp() does not
/// overflow.
void softmax(Matrix& scores) {
  for (Eigen::Index image = 0; image < scores.cols(); ++image) {
    auto column = scores.col(image);
    column = (column.array() - column.maxCoeff()).exp();
    column /= column.sum();
  }
}

}  // namespace

Network::Network(std::vector<std::size_t> widths, std::uint64_t seed) : widths_(std::move(widths)) {
  std::mt19937_64 generator(seed);
  for (std::size_t layer = 0; layer < layers(); ++layer) {
    const std::size_t in = widths_[layer];
    const std::size_t out = widths_[layer + 1];
    const std::string name = "layer" + std::to_string(layer);
    parameters_.push_back({name + ".bias", {out}, std::vector<double>(out)});
    parameters_.push_back({name + ".weight", {in, out}, std::vector<double>(in * out)});
    // Initialisation of He et al. (ICCV 2015): keeps the variance of ReLU activations from layer to
    // layer.
    const double bound = std::sqrt(6.0 / static_cast<double>(in));
    for (double& weight : parameters_.back().value) weight = bound * uniform(generator);
  }
  for (const Parameter& parameter : parameters_) velocities_.emplace_back(parameter.value.size());
  activations_.resize(layers());
}

double Network::forward(const Batch& batch) {
  std::span<const double> input = batch.pixels;
  for (std::size_t layer = 0; layer < layers(); ++layer) {
    const std::size_t in = widths_[layer];
    const std::size_t out = widths_[layer + 1];
    Matrix scores = make_matrix(activations_[layer], out, batch.size());
    scores.noalias() = matrix(parameters_[weight_of(layer)].value, in, out).transpose() *
                       matrix(input, in, batch.size());
    scores.colwise() += vector(parameters_[bias_of(layer)].value);
    if (layer + 1 < layers()) {
      scores = scores.cwiseMax(0.0);
    } else {
      softmax(scores);
    }
    input = activations_[layer];
  }
  double loss = 0;
  for (std::size_t image = 0; image < batch.size(); ++image) {
    const double probability = activations_.back()[image * widths_.back() + batch.labels[image]];
    loss -= std::log(std::max(probability, std::numeric_limits<double>::min()));
  }
  return loss;
}

std::size_t Network::correct(const Batch& batch) const {
  const ConstMatrix probabilities = matrix(activations_.back(), widths_.back(), batch.size());
  std::size_t count = 0;
  for (std::size_t image = 0; image < batch.size(); ++image) {
    Eigen::Index best = 0;
    probabilities.col(index(image)).maxCoeff(&best);
    if (best == batch.labels[image]) ++count;
  }
  return count;
}

void Network::backward(const Batch& batch, double scale, std::span<double* const> gradients,
                       const std::function<void(std::size_t)>& ready) {
  // The derivative of softmax and cross-entropy together: probabilities minus the one-hot label.
  delta_ = activations_.back();
  for (std::size_t image = 0; image < batch.size(); ++image) {
    delta_[image * widths_.back() + batch.labels[image]] -= 1;
  }
  for (double& element : delta_) element *= scale;
  for (std::size_t layer = layers(); layer-- > 0;) {
    const std::size_t in = widths_[layer];
    const std::size_t out = widths_[layer + 1];
    const ConstMatrix delta = matrix(delta_, out, batch.size());
    const std::span<const double> input =
        layer == 0 ? batch.pixels : std::span<const double>(activations_[layer - 1]);
    Matrix(gradients[weight_of(layer)], index(in), index(out)).noalias() =
        matrix(input, in, batch.size()) * delta.transpose();
    ready(weight_of(layer));
    Vector(gradients[bias_of(layer)], index(out)) = delta.rowwise().sum();
    ready(bias_of(layer));
    if (layer == 0) break;
    Matrix below = make_matrix(delta_below_, in, batch.size());
    below.noalias() = matrix(parameters_[weight_of(layer)].value, in, out) * delta;
    below = (matrix(input, in, batch.size()).array() > 0).select(below, 0.0);
    std::swap(delta_, delta_below_);
  }
}

void Network::descend(std::span<double* const> gradients, double rate, double momentum) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Eigen::Index count = index(parameters_[i].value.size());
    Vector value(parameters_[i].value.data(), count);
    Vector velocity(velocities_[i].data(), count);
    velocity = momentum * velocity + Vector(gradients[i], count);
    value -= rate * velocity;
  }
}

std::uint64_t hash(const std::vector<Parameter>& parameters) {
  std::uint64_t state = 0xcbf29ce484222325;
  for (const Parameter& parameter : parameters) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(parameter.value.data());
    for (std::size_t i = 0; i < parameter.value.size() * sizeof(double); ++i) {
      state = (state ^ bytes[i]) * 0x100000001b3;
    }
  }
  return state;
}

}  // namespace c10dd::digits
