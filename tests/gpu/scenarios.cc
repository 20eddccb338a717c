// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/scenarios.h"

#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "client/errors.h"
#include "protocol/format.h"
#include "tests/gpu/world.h"
#include "tests/unit/collectives/expected.h"

namespace c10dd::gpu {
namespace {

using test::each_type;
using test::factor_of;
using test::Inputs;
using test::inputs_of;
using test::number;
using test::reduction_of;

/// Compares a result of NCCL. Only avg of floats may be rounded differently, because NCCL
/// multiplies by 1/n first.
template <class T>
bool same(const std::vector<T>& got, const std::vector<T>& expected, ReduceOp op) {
  if (std::is_integral_v<T> || op != ReduceOp::avg) return got == expected;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double error = std::abs(number(got[i]) - number(expected[i]));
    if (error > 0.02 * std::abs(number(expected[i])) + 0.02) return false;
  }
  return got.size() == expected.size();
}

/// Reduces elements of every type by every operation that NCCL has.
void reductions() {
  World world;
  ProcessGroup& group = *world.group;
  const Rank size = group.size();
  each_type([&]<class T>(DType dtype, std::type_identity<T>) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{1021}, std::size_t{100'003}}) {
      const Inputs<T> inputs = inputs_of<T>(size, count, dtype);
      for (std::size_t kind = 0; kind < kReduceOps; ++kind) {
        const ReduceOp op(static_cast<ReduceOp::Kind>(kind), factor_of(group.rank()));
        if (!combines(op, dtype)) continue;
        if (count > 2'000 && op != ReduceOp::sum && op != ReduceOp::avg) continue;
        const std::string what = format("{} of {} {}", name_of(op), count, name_of(dtype));
        const Tensor tensor = world.gpu.put(inputs[group.rank()], dtype);
        try {
          group.all_reduce(tensor, op);
        } catch (const Error& error) {
          const bool bits = op == ReduceOp::band || op == ReduceOp::bor || op == ReduceOp::bxor;
          expect(error.code() == Code::unsupported && (bits || dtype == DType::int16),
                 what + ": " + error.what());
          continue;
        }
        const std::vector<T> expected = reduction_of(inputs, op, dtype);
        expect(same(world.gpu.get<T>(tensor), expected, op), "all_reduce, " + what);
        const Tensor at_root = world.gpu.put(inputs[group.rank()], dtype);
        group.reduce(at_root, size - 1, op);
        const std::vector<T> got = world.gpu.get<T>(at_root);
        const bool is_root = group.rank() == size - 1;
        expect(is_root ? same(got, expected, op) : got == inputs[group.rank()], "reduce, " + what);
      }
    }
  });
}

/// Moves elements of every type in every way.
void moves() {
  World world;
  ProcessGroup& group = *world.group;
  const Rank size = group.size();
  const Rank rank = group.rank();
  constexpr std::size_t kCount = 1021;
  each_type([&]<class T>(DType dtype, std::type_identity<T>) {
    const Inputs<T> inputs = inputs_of<T>(size, kCount, dtype);
    std::vector<T> all;
    for (const auto& one : inputs) all.insert(all.end(), one.begin(), one.end());
    const std::string what(name_of(dtype));
    const Tensor own = world.gpu.put(inputs[rank], dtype);
    const Tensor whole = world.gpu.put(std::vector<T>(kCount * size), dtype);
    group.all_gather_single(whole, own);
    expect(world.gpu.get<T>(whole) == all, "all_gather of " + what);
    const Tensor exchanged = world.gpu.put(std::vector<T>(kCount * size), dtype);
    group.all_to_all_single(exchanged, whole);
    std::vector<T> mine;
    for (Rank from = 0; from < size; ++from) {
      mine.insert(mine.end(), inputs[rank].begin(), inputs[rank].end());
    }
    expect(world.gpu.get<T>(exchanged) == mine, "all_to_all of " + what);
    const Tensor part = world.gpu.put(std::vector<T>(kCount), dtype);
    group.scatter_single(part, rank == 0 ? whole : whole.slice(0, 0), 0);
    expect(world.gpu.get<T>(part) == inputs[rank], "scatter of " + what);
    const Tensor gathered = world.gpu.put(std::vector<T>(kCount * size), dtype);
    group.gather_single(rank == 0 ? gathered : gathered.slice(0, 0), part, 0);
    expect(rank != 0 || world.gpu.get<T>(gathered) == all, "gather of " + what);
    group.broadcast(part, size - 1);
    expect(world.gpu.get<T>(part) == inputs[size - 1], "broadcast of " + what);
    if (dtype == DType::int16) return;
    const Tensor reduced = world.gpu.put(std::vector<T>(kCount), dtype);
    const Inputs<T> wide = inputs_of<T>(size, kCount * size, dtype);
    group.reduce_scatter_single(reduced, world.gpu.put(wide[rank], dtype));
    const std::vector<T> sums = reduction_of(wide, ReduceOp::sum, dtype);
    const auto begin = sums.begin() + static_cast<std::ptrdiff_t>(rank * kCount);
    expect(world.gpu.get<T>(reduced) == std::vector<T>(begin, begin + kCount),
           "reduce_scatter of " + what);
  });
  std::vector<std::int64_t> values = {static_cast<std::int64_t>(rank) + 1};
  group.all_reduce(tensor_of(values));
  expect(values[0] == static_cast<std::int64_t>(size * (size + 1) / 2), "all_reduce on the host");
  group.barrier();
}

/// Sends to the next rank and receives from the previous one, as one group of NCCL.
void messages() {
  World world;
  const Rank size = world.group->size();
  const Rank rank = world.group->rank();
  const std::vector<float> own(16 << 20, static_cast<float>(rank));  // 64 MiB
  const Tensor out = world.gpu.put(own, DType::float32);
  const Tensor in = world.gpu.put(std::vector<float>(own.size()), DType::float32);
  world.group->coalesce(
      {{.collective = Collective::send, .input = out, .peer = (rank + 1) % size},
       {.collective = Collective::recv, .output = in, .peer = (rank + size - 1) % size}});
  const std::vector<float> got = world.gpu.get<float>(in);
  const float expected = static_cast<float>((rank + size - 1) % size);
  expect(got.front() == expected && got.back() == expected, "a message around the ring");
}

/// A stream that waits for a collective sees its result, without the host.
void streams() {
  World world;
  const Rank size = world.group->size();
  for (int round = 0; round < 50; ++round) {
    const std::vector<float> ones(1 << 20, 1.0f);
    const Tensor tensor = world.gpu.put(ones, DType::float32);
    world.group->all_reduce(tensor);
    const std::vector<float> got = world.gpu.get<float>(tensor);  // by the same stream
    expect(got.front() == static_cast<float>(size) && got.back() == got.front(),
           "the stream has overtaken the all_reduce");
  }
}

/// Sums in groups of some ranks.
void subgroups() {
  World world;
  const Rank rank = world.group->rank();
  const auto half = world.group->split(static_cast<std::int32_t>(rank % 2));
  const auto pair =
      world.group->new_group(rank < 2 ? std::vector<Rank>{0, 1} : std::vector<Rank>{2, 3});
  for (const auto& group : {half, pair}) {
    const Tensor tensor = world.gpu.put(std::vector<float>{1}, DType::float32);
    group->all_reduce(tensor);
    expect(world.gpu.get<float>(tensor).front() == 2, "the sum in a group of 2");
  }
}

}  // namespace

const Scenario kScenarioList[kScenarios] = {
    {"reductions", 1, 1, reductions},
    {"moves", 1, 1, moves},
    {"reductions", 2, 2, reductions},
    {"moves", 3, 3, moves},
    {"messages", 2, 2, messages},
    {"streams", 2, 2, streams},
    {"subgroups", 4, 4, subgroups},
    {"abort", 2, 2, abort_a_group},
    {"aborts", 2, 2, abort_many_groups},
    {"absence", 2, 2, stay_away},
    {"kill", 3, 2, kill_a_rank},
    {"stop", 3, 2, stop_a_rank},
    {"pace", 1, 1, pace},
    {"pace", 2, 2, pace},
};

}  // namespace c10dd::gpu
