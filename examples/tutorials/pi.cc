// SPDX-License-Identifier: Apache-2.0
// Computes pi as the area under 4 / (1 + x^2) between 0 and 1, by rectangles. Each rank adds up
// every n-th rectangle; reduce adds up the ranks.
#include <c10dd/c10dd.h>

#include <cstdio>
#include <vector>

int main() {
  try {
    const auto group = c10dd::ProcessGroup::open(c10dd::Client::from_environment());
    constexpr int kRectangles = 1'000'000;
    double area = 0;
    for (int i = static_cast<int>(group->rank()); i < kRectangles;
         i += static_cast<int>(group->size())) {
      const double x = (i + 0.5) / kRectangles;
      area += 4 / (1 + x * x) / kRectangles;
    }
    std::vector<double> sum = {area};
    group->reduce(c10dd::tensor_of(sum), 0);
    if (group->rank() == 0) std::printf("pi is about %.9f\n", sum[0]);
  } catch (const c10dd::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
