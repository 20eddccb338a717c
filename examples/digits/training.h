// SPDX-License-Identifier: Apache-2.0
// The training loop, the same for one process and for many: what differs is the Team. Equal options
// give equal global batches whatever the team's size, so the losses can be compared.
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

/// Those who train together.
class Team {
 public:
  virtual ~Team() = default;
  virtual std::size_t rank() const = 0;
  virtual std::size_t size() const = 0;

  /// Where backward writes the gradient of each parameter.
  virtual std::span<double* const> gradients() const = 0;
  /// This gradient is final. In any order, while backward goes on.
  virtual void ready(std::size_t parameter) = 0;
  /// Returns when all gradients are averages over the team.
  virtual void average() = 0;

  /// Each value becomes its sum over the team.
  virtual void sum(std::span<double> values) = 0;
  /// This rank has trained on so many images in the epoch; returns when everybody is here.
  virtual void end_epoch(std::size_t epoch, std::size_t images) = 0;
};

/// One process alone: the reference.
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

/// The mean loss over the images of an epoch while it trained, and the share of the test set that
/// is right after it; both of the whole team.
struct Epoch {
  std::size_t number = 0;  ///< from 1
  double loss = 0;
  double test_accuracy = 0;
};

/// What a rank has seen in an epoch; the team adds it up.
struct Seen {
  double loss = 0;
  double images = 0;
  double tested = 0;
  double correct = 0;
};

/// One rank's part of the training, step by step.
class Trainer {
 public:
  Trainer(Network& network, const Split& data, const TrainingOptions& options, Team& team);

  std::size_t steps_per_epoch() const;
  /// Trains on this rank's share of batch `index` of epoch `epoch` (from 1).
  void step(std::size_t epoch, std::size_t index);
  /// Tests, adds up over the team, and prints the line `epoch`. With what this rank has seen since
  /// the epoch before.
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
