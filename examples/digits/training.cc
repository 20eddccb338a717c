// SPDX-License-Identifier: Apache-2.0
// The steps and the ends of epochs.
#include "examples/digits/training.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <numeric>
#include <random>

namespace c10dd::digits {
namespace {

using Clock = std::chrono::steady_clock;

/// Returns this rank's part of a batch; the parts differ by at most one image.
std::span<const std::size_t> share_of(std::span<const std::size_t> batch, const Team& team) {
  const std::size_t begin = batch.size() * team.rank() / team.size();
  const std::size_t end = batch.size() * (team.rank() + 1) / team.size();
  return batch.subspan(begin, end - begin);
}

Batch batch_of(const Dataset& data) { return {.pixels = data.pixels, .labels = data.labels}; }

}  // namespace

Trainer::Trainer(Network& network, const Split& data, const TrainingOptions& options, Team& team)
    : network_(network), data_(data), options_(options), team_(team) {
  std::vector<std::size_t> own(data.test.size());
  std::iota(own.begin(), own.end(), std::size_t{0});
  test_ = data.test.pick(share_of(own, team));
}

std::size_t Trainer::steps_per_epoch() const {
  return (data_.train.size() + options_.batch - 1) / options_.batch;
}

void Trainer::begin_epoch(std::size_t epoch) {
  epoch_ = epoch;
  order_.resize(data_.train.size());
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  std::mt19937_64 generator(options_.seed + epoch);
  shuffle(order_, generator);
  seen_ = {};
  begun_ = Clock::now();
}

void Trainer::step(std::size_t epoch, std::size_t index) {
  if (epoch != epoch_) begin_epoch(epoch);
  const std::size_t first = index * options_.batch;
  const std::size_t count = std::min(options_.batch, order_.size() - first);
  const std::span<const std::size_t> batch = std::span(order_).subspan(first, count);
  const Dataset own = data_.train.pick(share_of(batch, team_));
  seen_.loss += network_.forward(batch_of(own));
  seen_.images += static_cast<double>(own.size());
  // With this scale the average over the ranks is the mean over the batch, even if the shares have
  // different sizes.
  const double scale = static_cast<double>(team_.size()) / static_cast<double>(batch.size());
  network_.backward(batch_of(own), scale, team_.gradients(),
                    [this](std::size_t parameter) { team_.ready(parameter); });
  team_.average();
  network_.descend(team_.gradients(), options_.learning_rate, options_.momentum);
}

Epoch Trainer::end_epoch(std::size_t epoch) {
  const std::chrono::duration<double> spent = Clock::now() - begun_;
  const auto own_images = static_cast<std::size_t>(seen_.images);
  seen_.tested = static_cast<double>(test_.size());
  network_.forward(batch_of(test_));
  seen_.correct = static_cast<double>(network_.correct(batch_of(test_)));

  std::array values = {seen_.loss, seen_.images, seen_.tested, seen_.correct};
  team_.sum(values);
  const auto [loss, images, tested, correct] = values;
  const Epoch result = {
      .number = epoch, .loss = images > 0 ? loss / images : 0, .test_accuracy = correct / tested};
  if (team_.rank() == 0) {
    std::printf("epoch number=%zu of=%zu loss=%.4f test_accuracy=%.4f images_per_second=%.0f\n",
                epoch, options_.epochs, result.loss, result.test_accuracy, images / spent.count());
  }
  team_.end_epoch(epoch, own_images);
  return result;
}

Solo::Solo(const Network& network) {
  for (const Parameter& parameter : network.parameters()) {
    memory_.emplace_back(parameter.value.size());
    pointers_.push_back(memory_.back().data());
  }
}

std::vector<Epoch> train(Network& network, const Split& data, const TrainingOptions& options,
                         Team& team) {
  Trainer trainer(network, data, options, team);
  std::vector<Epoch> epochs;
  const std::size_t steps = trainer.steps_per_epoch();
  for (std::size_t epoch = 1; epoch <= options.epochs; ++epoch) {
    for (std::size_t index = 0; index < steps; ++index) {
      if (index == steps / 2) {
        std::printf("half rank=%zu epoch=%zu\n", team.rank(), epoch);
      }
      trainer.step(epoch, index);
    }
    epochs.push_back(trainer.end_epoch(epoch));
  }
  return epochs;
}

}  // namespace c10dd::digits
