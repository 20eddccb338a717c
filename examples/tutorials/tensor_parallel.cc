// SPDX-License-Identifier: Apache-2.0
// The product of a 2x4 and a 4x2 matrix on two ranks, which have half of the second matrix each. By
// columns: each rank computes a column of the result, and all_gather joins them. By rows: each rank
// computes a part of every sum, and all_reduce adds the parts.
#include <c10dd/c10dd.h>

#include <cstdio>
#include <vector>

namespace {

constexpr std::size_t kRows = 2;
constexpr std::size_t kInner = 4;
constexpr std::size_t kColumns = 2;
constexpr float kLeft[kRows][kInner] = {{0, 1, 2, 3}, {4, 5, 6, 7}};
constexpr float kRight[kInner][kColumns] = {{8, 9}, {10, 11}, {12, 13}, {14, 15}};

void print(const char* how, c10dd::Rank rank, float a, float b, float c, float d) {
  std::printf("%s: rank %u has [[%g,%g],[%g,%g]]\n", how, rank, static_cast<double>(a),
              static_cast<double>(b), static_cast<double>(c), static_cast<double>(d));
}

void by_columns(c10dd::ProcessGroup& group) {
  std::vector<float> column(kRows);
  for (std::size_t i = 0; i < kRows; ++i) {
    for (std::size_t k = 0; k < kInner; ++k) column[i] += kLeft[i][k] * kRight[k][group.rank()];
  }
  std::vector<float> all(kRows * kColumns);  // column after column
  group.all_gather_single(c10dd::tensor_of(all), c10dd::tensor_of(column));
  print("columns", group.rank(), all[0], all[2], all[1], all[3]);
}

void by_rows(c10dd::ProcessGroup& group) {
  const std::size_t first = group.rank() * kInner / 2;  // of the rows that this rank has
  std::vector<float> sums(kRows * kColumns);
  for (std::size_t i = 0; i < kRows; ++i) {
    for (std::size_t j = 0; j < kColumns; ++j) {
      for (std::size_t k = first; k < first + kInner / 2; ++k) {
        sums[i * kColumns + j] += kLeft[i][k] * kRight[k][j];
      }
    }
  }
  group.all_reduce(c10dd::tensor_of(sums));
  print("rows", group.rank(), sums[0], sums[1], sums[2], sums[3]);
}

}  // namespace

int main() {
  try {
    const auto group = c10dd::ProcessGroup::open(c10dd::Client::from_environment(), {}, "tp");
    by_columns(*group);
    by_rows(*group);
  } catch (const c10dd::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
