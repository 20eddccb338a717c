// SPDX-License-Identifier: Apache-2.0
// One epoch after the other.
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

/// This rank's part of a batch that begins at `first`; parts differ by at most one image.
std::span<const std::size_t> share_of(std::span<const std::size_t> batch, const Team& team) {
  const std::size_t begin = batch.size() * team.rank() / team.size();
  const std::size_t end = batch.size() * (team.rank() + 1) / team.size();
  return batch.subspan(begin, end - begin);
}

Batch batch_of(const Dataset& data) { return {.pixels = data.pixels, .labels = data.labels}; }

/// What a rank has seen in an epoch; the team adds it up.
struct Seen {
  double loss = 0;
  double images = 0;
  double tested = 0;
  double correct = 0;
};

class Trainer {
 public:
  Trainer(Network& network, const Split& data, const TrainingOptions& options, Team& team)
      : network_(network), data_(data), options_(options), team_(team) {
    std::vector<std::size_t> own(data.test.size());
    std::iota(own.begin(), own.end(), std::size_t{0});
    test_ = data.test.pick(share_of(own, team));
  }

  Epoch run(std::size_t epoch) {
    const auto begin = Clock::now();
    Seen seen = train_on_all(epoch);
    const std::chrono::duration<double> spent = Clock::now() - begin;
    const auto own_images = static_cast<std::size_t>(seen.images);
    seen.tested = static_cast<double>(test_.size());
    network_.forward(batch_of(test_));
    seen.correct = static_cast<double>(network_.correct(batch_of(test_)));

    std::array values = {seen.loss, seen.images, seen.tested, seen.correct};
    team_.sum(values);
    const auto [loss, images, tested, correct] = values;
    const Epoch result = {.loss = loss / images, .test_accuracy = correct / tested};
    if (team_.rank() == 0) {
      std::printf("epoch number=%zu of=%zu loss=%.4f test_accuracy=%.4f images_per_second=%.0f\n",
                  epoch, options_.epochs, result.loss, result.test_accuracy,
                  images / spent.count());
    }
    team_.end_epoch(epoch, own_images);
    return result;
  }

 private:
  Seen train_on_all(std::size_t epoch) {
    std::vector<std::size_t> order(data_.train.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::mt19937_64 generator(options_.seed + epoch);
    shuffle(order, generator);
    Seen seen;
    bool half = false;
    for (std::size_t first = 0; first < order.size(); first += options_.batch) {
      if (!half && first >= order.size() / 2) {
        half = true;
        std::printf("half rank=%zu epoch=%zu\n", team_.rank(), epoch);
      }
      const std::size_t count = std::min(options_.batch, order.size() - first);
      step(std::span(order).subspan(first, count), seen);
    }
    return seen;
  }

  void step(std::span<const std::size_t> batch, Seen& seen) {
    const Dataset own = data_.train.pick(share_of(batch, team_));
    seen.loss += network_.forward(batch_of(own));
    seen.images += static_cast<double>(own.size());
    // So that the average over ranks is the mean over the batch, however uneven the shares are.
    const double scale = static_cast<double>(team_.size()) / static_cast<double>(batch.size());
    network_.backward(batch_of(own), scale, team_.gradients(),
                      [this](std::size_t parameter) { team_.ready(parameter); });
    team_.average();
    network_.descend(team_.gradients(), options_.learning_rate, options_.momentum);
  }

  Network& network_;
  const Split& data_;
  const TrainingOptions& options_;
  Team& team_;
  Dataset test_;
};

}  // namespace

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
  for (std::size_t epoch = 1; epoch <= options.epochs; ++epoch)
    epochs.push_back(trainer.run(epoch));
  return epochs;
}

}  // namespace c10dd::digits
