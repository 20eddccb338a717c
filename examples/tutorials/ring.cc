// SPDX-License-Identifier: Apache-2.0
// Writes all_reduce with send and receive, as a ring (Patarasu and Yuan, "Bandwidth optimal
// all-reduce algorithms for clusters of workstations", 2009). The values are cut into n parts. In
// n-1 steps each rank passes a part to its right neighbour, which adds its own: then each rank has
// the sum of one part. In n-1 more steps the sums travel round.
#include <c10dd/c10dd.h>

#include <cstdio>
#include <vector>

namespace {

constexpr std::size_t kPart = 1000;

struct Ring {
  c10dd::ProcessGroup& group;
  std::vector<double>& values;
  std::size_t bytes = 0;  // sent by this rank

  c10dd::Tensor part(std::size_t index) {
    return c10dd::tensor_of(values).slice(index % group.size() * kPart, kPart);
  }

  /// Sends one part to the right, and returns what comes from the left.
  std::vector<double> step(std::size_t sent) {
    const c10dd::Rank n = group.size();
    std::vector<double> arriving(kPart);
    const auto sending = group.isend(part(sent), (group.rank() + 1) % n);
    group.recv(c10dd::tensor_of(arriving), (group.rank() + n - 1) % n);
    sending->wait();
    bytes += kPart * sizeof(double);
    return arriving;
  }

  void all_reduce() {
    const std::size_t n = group.size();
    const std::size_t own = group.rank();
    for (std::size_t i = 0; i + 1 < n; ++i) {
      const std::vector<double> arriving = step(own + n - i);
      auto* const to = static_cast<double*>(part(own + n - i - 1).data);
      for (std::size_t k = 0; k < kPart; ++k) to[k] += arriving[k];
      if (own == 0) std::printf("reduce-scatter: step %zu of %zu\n", i + 1, n - 1);
    }
    for (std::size_t i = 0; i + 1 < n; ++i) {
      const std::vector<double> arriving = step(own + n + 1 - i);
      auto* const to = static_cast<double*>(part(own + n - i).data);
      for (std::size_t k = 0; k < kPart; ++k) to[k] = arriving[k];
      if (own == 0) std::printf("all-gather: step %zu of %zu\n", i + 1, n - 1);
    }
  }
};

}  // namespace

int main() {
  try {
    const auto group = c10dd::ProcessGroup::open(c10dd::Client::from_environment());
    std::vector<double> values(kPart * group->size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<double>(i * (group->rank() + 1));
    }
    std::vector<double> expected = values;
    group->all_reduce(c10dd::tensor_of(expected));
    Ring ring{*group, values};
    ring.all_reduce();
    std::printf("rank %u: %s; sent %zu bytes of %zu\n", group->rank(),
                values == expected ? "equal" : "different", ring.bytes,
                values.size() * sizeof(double));
    group->barrier();
  } catch (const c10dd::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
