// SPDX-License-Identifier: Apache-2.0
// Four ranks as a grid of two rows and two columns, as tensor and data parallelism use them. Each
// row and each column is a group of its own.
#include <c10dd/c10dd.h>

#include <cstdint>
#include <cstdio>
#include <vector>

namespace {

double sum_of_ranks(c10dd::ProcessGroup& group, c10dd::Rank own) {
  std::vector<double> value = {static_cast<double>(own)};
  group.all_reduce(c10dd::tensor_of(value));
  return value[0];
}

}  // namespace

int main() {
  try {
    const auto world = c10dd::ProcessGroup::open(c10dd::Client::from_environment());
    const c10dd::Rank rank = world->rank();
    // All ranks call split(): those with the same color get a group.
    const auto row = world->split(static_cast<std::int32_t>(rank / 2), 0, {.kind = "tp"});
    const auto column = world->split(static_cast<std::int32_t>(rank % 2), 0, {.kind = "dp"});
    std::printf("rank %u: %s %s has the sum %g, %s %s has the sum %g\n", rank, row->kind().c_str(),
                row->world().name.c_str(), sum_of_ranks(*row, rank), column->kind().c_str(),
                column->world().name.c_str(), sum_of_ranks(*column, rank));
    // Only its members call new_group().
    if (rank == 1 || rank == 3) {
      const auto odd = world->new_group({3, 1});
      std::printf("rank %u is rank %u of %s\n", rank, odd->rank(), odd->world().name.c_str());
    }
  } catch (const c10dd::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
