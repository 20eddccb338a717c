// SPDX-License-Identifier: Apache-2.0
// A fully connected network with ReLU and softmax cross-entropy, trained by SGD with momentum.
// Works on the caller's memory for gradients, so that they can lie in the buckets of a reducer.
// One thread; the same seed and the same batches give the same numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace c10dd::digits {

struct Parameter {
  std::string name;
  std::vector<std::size_t> shape;
  std::vector<double> value;
};

/// Images one after the other and their labels; a view.
struct Batch {
  std::span<const double> pixels;
  std::span<const std::uint8_t> labels;

  std::size_t size() const { return labels.size(); }
};

class Network {
 public:
  /// widths: of the input, the hidden layers, the output.
  Network(std::vector<std::size_t> widths, std::uint64_t seed);

  /// Per layer the bias, then the weight. Backward walks them from the last to the first, so it
  /// reaches a layer's weight first, and the bucket that it fills does not wait for the next layer.
  std::vector<Parameter>& parameters() { return parameters_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }

  /// The momentum of each parameter: with the parameters all that a step changes.
  std::vector<std::vector<double>>& velocities() { return velocities_; }

  /// Runs the batch through and returns the sum of its losses.
  double forward(const Batch& batch);

  /// How many images of the last forward() got their own label as the most probable.
  std::size_t correct(const Batch& batch) const;

  /// Of the last forward(): writes the gradient of `scale` x the sum of losses of each parameter to
  /// its place in `gradients`, from the last parameter to the first, and calls `ready` after each.
  void backward(const Batch& batch, double scale, std::span<double* const> gradients,
                const std::function<void(std::size_t)>& ready);

  /// velocity = momentum x velocity + gradient; value -= rate x velocity.
  void descend(std::span<double* const> gradients, double rate, double momentum);

 private:
  std::size_t layers() const { return widths_.size() - 1; }

  const std::vector<std::size_t> widths_;
  std::vector<Parameter> parameters_;
  std::vector<std::vector<double>> velocities_;
  std::vector<std::vector<double>> activations_;  // of each layer; the last: probabilities
  std::vector<double> delta_;                     // d loss / d input of a layer's activation
  std::vector<double> delta_below_;
};

/// 64-bit FNV-1a of all parameters' bytes in order: equal exactly when ranks agree bit for bit.
std::uint64_t hash(const std::vector<Parameter>& parameters);

}  // namespace c10dd::digits
