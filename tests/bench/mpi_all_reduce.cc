// SPDX-License-Identifier: Apache-2.0
// c10dd-bench-mpi SECONDS BYTES...: calls MPI_Allreduce of floats of each size for so long. Rank 0
// prints "BYTES NANOSECONDS" for each call. Started by mpirun, for the scenario all-reduce.
#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

std::chrono::nanoseconds call(std::vector<float>& values) {
  const Clock::time_point start = Clock::now();
  MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_FLOAT, MPI_SUM,
                MPI_COMM_WORLD);
  return Clock::now() - start;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const double seconds = argc > 1 ? std::atof(argv[1]) : 1;
  for (int i = 2; i < argc; ++i) {
    const std::size_t bytes = std::strtoull(argv[i], nullptr, 10);
    std::vector<float> values(bytes / sizeof(float));
    call(values);
    int calls = static_cast<int>(seconds / std::chrono::duration<double>(call(values)).count()) + 5;
    MPI_Bcast(&calls, 1, MPI_INT, 0, MPI_COMM_WORLD);
    for (int n = 0; n < calls; ++n) {
      const auto took = call(values);
      if (rank == 0) std::printf("%zu %lld\n", bytes, static_cast<long long>(took.count()));
    }
  }
  return MPI_Finalize();
}
