// SPDX-License-Identifier: Apache-2.0
// A fully connected network with ReLU and softmax cross-entropy, trained by SGD with momentum. It
// writes gradients to memory of the caller, so that they can be in the buckets of a reducer. Single
// threaded: the same seed and the same batches give the same numbers.
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
  std::vector<std::size_t>
      shape;  ///< of a weight: inputs, outputs (column-major); of a bias: outputs
  std::vector<double> value;
};

/// A view of images, as in Dataset.
struct Batch {
  std::span<const double> pixels;
  std::span<const std::uint8_t> labels;

  std::size_t size() const { return labels.size(); }
};

class Network {
 public:
  /// `widths` has the number of inputs, the width of each hidden layer and the number of outputs.
  Network(std::vector<std::size_t> widths, std::uint64_t seed);

  /// Returns the bias and then the weight of each layer. Backward goes from the last parameter to
  /// the first. So it computes a layer's weight, which fills a bucket, before the layer's bias.
  std::vector<Parameter>& parameters() { return parameters_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }

  /// Returns the momentum of each parameter. Velocities and parameters are all that a step changes.
  std::vector<std::vector<double>>& velocities() { return velocities_; }

  /// Computes the outputs for the batch, and returns the sum of the losses of its images.
  double forward(const Batch& batch);

  /// Returns for how many images of `batch`, that of the last forward(), the most probable class is
  /// the label.
  std::size_t correct(const Batch& batch) const;

  /// Computes the gradients of `scale` x the sum of losses, for the batch of the last forward().
  /// Writes those of parameter i to gradients[i], from the last parameter to the first, and calls
  /// ready(i) after each.
  void backward(const Batch& batch, double scale, std::span<double* const> gradients,
                const std::function<void(std::size_t)>& ready);

  /// Makes a step: velocity = momentum x velocity + gradient; value -= rate x velocity.
  void descend(std::span<double* const> gradients, double rate, double momentum);

 private:
  std::size_t layers() const { return widths_.size() - 1; }

  const std::vector<std::size_t> widths_;
  std::vector<Parameter> parameters_;
  std::vector<std::vector<double>> velocities_;
  std::vector<std::vector<double>> activations_;  // of each layer; of the last: probabilities
  std::vector<double> delta_;        // d loss / d (input of the activation) of the current layer
  std::vector<double> delta_below_;  // the same of the layer below
};

/// Returns the 64-bit FNV-1a hash of the bytes of all parameters, in order. Ranks with equal hashes
/// have the same parameters, bit for bit.
std::uint64_t hash(const std::vector<Parameter>& parameters);

}  // namespace c10dd::digits
