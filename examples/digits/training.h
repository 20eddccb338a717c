// SPDX-License-Identifier: Apache-2.0
// The training loop, the same for one process and for many: only the Team differs. Equal options
// give equal global batches for every size of the team, so the losses can be compared.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "examples/digits/dataset.h"
#include "examples/digits/network.h"

namespace c10dd::digits {

struct TrainingOptions {
  std::size_t epochs = 24;
  std::size_t batch = 128;  ///< images of all ranks together
  double learning_rate = 0.03;
  double momentum = 0.9;
  std::uint64_t seed = 1;  ///< of the network and of the order of images in each epoch
};

/// The ranks that train together, as one of them sees it.
class Team {
 public:
  virtual ~Team() = default;
  virtual std::size_t rank() const = 0;
  virtual std::size_t size() const = 0;

  /// Returns where backward writes the gradient of each parameter.
  virtual std::span<double* const> gradients() const = 0;
  /// Reports that the gradient of this parameter is final. Called during backward, in any order.
  virtual void ready(std::size_t parameter) = 0;
  /// Blocks until all gradients are averages over the team.
  virtual void average() = 0;

  /// Replaces each value by its sum over the team.
  virtual void sum(std::span<double> values) = 0;
  /// Reports on how many images this rank has trained in the epoch, and blocks until all ranks have
  /// finished it.
  virtual void end_epoch(std::size_t epoch, std::size_t images) = 0;
};

/// A team of one process, without a daemon: the reference.
class Solo final : public Team {
 public:
  explicit Solo(const Network& network);

  std::size_t rank() const override { return 0; }
  std::size_t size() const override { return 1; }
  std::span<double* const> gradients() const override { return pointers_; }
  void ready(std::size_t) override {}
  void average() override {}
  void sum(std::span<double>) override {}
  void end_epoch(std::size_t, std::size_t) override {}

 private:
  std::vector<std::vector<double>> memory_;
  std::vector<double*> pointers_;
};

/// The result of an epoch, over the whole team.
struct Epoch {
  std::size_t number = 0;    ///< from 1
  double loss = 0;           ///< mean over the images, each at the time it was trained on
  double test_accuracy = 0;  ///< share of the test set that is classified correctly afterwards
};

/// Sums of one rank in an epoch. Doubles, so that the team can add them up in one all-reduce.
struct Seen {
  double loss = 0;     ///< of the images
  double images = 0;   ///< trained on
  double tested = 0;   ///< images of the test set
  double correct = 0;  ///< of these
};

/// Runs one rank's part of the training, step by step.
class Trainer {
 public:
  Trainer(Network& network, const Split& data, const TrainingOptions& options, Team& team);

  std::size_t steps_per_epoch() const;
  /// Trains on this rank's share of batch `index` (from 0) of epoch `epoch` (from 1).
  void step(std::size_t epoch, std::size_t index);
  /// Tests the network, adds up the results of the team, and prints the line `epoch` on rank 0. The
  /// loss is that of the images that the present members have trained on in this epoch.
  Epoch end_epoch(std::size_t epoch);

 private:
  void begin_epoch(std::size_t epoch);

  Network& network_;
  const Split& data_;
  const TrainingOptions& options_;
  Team& team_;
  Dataset test_;
  std::size_t epoch_ = 0;
  std::vector<std::size_t> order_;  // of the images in epoch_
  Seen seen_;
  std::chrono::steady_clock::time_point begun_;
};

/// Prints a line `half` in the middle of each epoch and, on rank 0, a line `epoch` at its end.
std::vector<Epoch> train(Network& network, const Split& data, const TrainingOptions& options,
                         Team& team);

}  // namespace c10dd::digits
