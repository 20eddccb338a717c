// SPDX-License-Identifier: Apache-2.0
// A trainer around the membership loop of docs/sdk.md, which is compiled as it stands there. Prints
// "step N" when a step begins, and at the end "done STEP SUM".
//
//     membership_loop URL STEPS ELEMENTS [PAUSE]
//
// PAUSE: the step in whose backward it says "paused" and stays, so that the others wait for it in
// all_reduce.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include <includes.inc>

namespace {

using namespace std::chrono_literals;

/// What the page leaves to the trainer.
std::uint64_t pause_at = ~std::uint64_t{0};

std::vector<float> backward(const std::vector<float>& weights, std::uint64_t step) {
  std::cout << "step " << step << std::endl;
  if (step == pause_at) {
    std::cout << "paused" << std::endl;
    for (;;) pause();
  }
  return std::vector<float>(weights.size(), 1.0F);
}

void update(std::vector<float>& weights, const std::vector<float>& gradients) {
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] += gradients[i];
}

void on_state(const c10dd::GroupState&) {}

void train(const std::shared_ptr<c10dd::Client>& client, std::uint64_t steps,
           std::vector<float>& weights) {
  std::uint64_t step = 0;
#include <body.inc>
  std::cout << "done " << step << " " << weights.front() << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return EXIT_FAILURE;
  if (argc > 4) pause_at = std::stoull(argv[4]);
  std::vector<float> weights(std::stoul(argv[3]));
  train(c10dd::Client::connect(argv[1]), std::stoull(argv[2]), weights);
  return EXIT_SUCCESS;
}
