// SPDX-License-Identifier: Apache-2.0
// Scatters the rows of a table, multiplies them element by element, and gathers them again.
#include <c10dd/c10dd.h>

#include <cstdio>
#include <vector>

namespace {

void print(const char* what, c10dd::Rank rank, const std::vector<float>& values) {
  std::printf("%s: rank %u has [", what, rank);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::printf("%s%g", i == 0 ? "" : ",", static_cast<double>(values[i]));
  }
  std::printf("]\n");
}

}  // namespace

int main() {
  try {
    const auto group = c10dd::ProcessGroup::open(c10dd::Client::from_environment());
    const bool root = group->rank() == 0;
    std::vector<float> table = {0, 1, 2, 3};  // rows [0,1] and [2,3]
    std::vector<float> row(2);
    const c10dd::Tensor all = root ? c10dd::tensor_of(table) : c10dd::Tensor{};
    group->scatter_single(c10dd::tensor_of(row), all, 0);
    print("scatter", group->rank(), row);

    std::vector<float> factors = root ? std::vector<float>{1, 10} : std::vector<float>{2, 11};
    group->reduce(c10dd::tensor_of(factors), 0, c10dd::ReduceOp::product);
    print("product", group->rank(), factors);  // only the root has the result

    group->gather_single(all, c10dd::tensor_of(factors), 0);
    if (root) print("gather", 0, table);

    // Rank r has r + 1 elements: a list has a tensor for each rank, of any sizes.
    std::vector<float> own(group->rank() + 1, static_cast<float>(group->rank()));
    std::vector<std::vector<float>> parts = {std::vector<float>(1), std::vector<float>(2)};
    group->all_gather({c10dd::tensor_of(parts[0]), c10dd::tensor_of(parts[1])},
                      c10dd::tensor_of(own));
    print("all_gather", group->rank(), parts[1]);
  } catch (const c10dd::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
