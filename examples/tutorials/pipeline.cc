// SPDX-License-Identifier: Apache-2.0
// A network of two layers on two ranks. Rank 0 computes the first layer and sends the activations
// of each micro-batch to rank 1 while it computes the next one. Rank 1 computes the second layer.
// The result must be that of the whole network on one rank, bit for bit.
#include <c10dd/c10dd.h>

#include <algorithm>
#include <cstdio>
#include <vector>

namespace {

constexpr std::size_t kWidth = 16;
constexpr std::size_t kMicroBatch = 4;  // samples
constexpr std::size_t kMicroBatches = 8;

using Values = std::vector<float>;

/// Returns max(0, W x) for each sample, with weights that depend on the layer.
Values layer(std::size_t number, const Values& input) {
  Values output(input.size());
  for (std::size_t sample = 0; sample < input.size() / kWidth; ++sample) {
    for (std::size_t i = 0; i < kWidth; ++i) {
      float sum = 0;
      for (std::size_t k = 0; k < kWidth; ++k) {
        const auto weight = static_cast<float>((i * 7 + k * 3 + number * 5) % 11) / 10.0F - 0.4F;
        sum += weight * input[sample * kWidth + k];
      }
      output[sample * kWidth + i] = std::max(sum, 0.0F);
    }
  }
  return output;
}

Values batch(std::size_t number) {
  Values values(kMicroBatch * kWidth);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>((i * 13 + number * 17) % 23) / 23.0F;
  }
  return values;
}

void first_stage(c10dd::ProcessGroup& group) {
  std::vector<Values> activations(kMicroBatches);
  std::vector<c10dd::WorkPtr> sending;
  for (std::size_t i = 0; i < kMicroBatches; ++i) {
    activations[i] = layer(0, batch(i));
    sending.push_back(group.isend(c10dd::tensor_of(activations[i]), 1));
  }
  for (const c10dd::WorkPtr& work : sending) work->wait();
}

void second_stage(c10dd::ProcessGroup& group) {
  std::size_t equal = 0;
  for (std::size_t i = 0; i < kMicroBatches; ++i) {
    Values activations(kMicroBatch * kWidth);
    group.recv(c10dd::tensor_of(activations), 0);
    if (layer(1, activations) == layer(1, layer(0, batch(i)))) ++equal;
  }
  std::printf("pipeline: %zu of %zu micro-batches equal the unsplit network\n", equal,
              kMicroBatches);
}

}  // namespace

int main() {
  try {
    const auto group = c10dd::ProcessGroup::open(c10dd::Client::from_environment(), {}, "pp");
    group->rank() == 0 ? first_stage(*group) : second_stage(*group);
    group->barrier();
  } catch (const c10dd::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
