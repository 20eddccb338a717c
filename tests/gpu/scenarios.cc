// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/scenarios.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "client/errors.h"
#include "protocol/format.h"
#include "tests/gpu/world.h"
#include "tests/matrix/values.h"

namespace c10dd::gpu {
namespace {

using matrix::Bytes;

using Inputs = std::vector<Bytes>;  // of all ranks

/// Checks a result of NCCL.
void expect_reduced(DType dtype, ReduceOp op, const Inputs& inputs, const Bytes& result,
                    const std::string& what) {
  const std::string wrong = matrix::check_reduction(dtype, op.kind, inputs, result);
  expect(wrong.empty(), what + ": " + wrong);
}

/// Reduces elements of a type by every operation that NCCL has.
void reduce_elements(World& world, DType dtype, std::size_t count) {
  ProcessGroup& group = *world.group;
  const Inputs inputs = matrix::small_inputs(group.size(), count, dtype);
  for (std::size_t kind = 0; kind < kReduceOps; ++kind) {
    const ReduceOp op(static_cast<ReduceOp::Kind>(kind), matrix::factor_of(group.rank()));
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
    expect_reduced(dtype, op, inputs, world.gpu.get<std::byte>(tensor), "all_reduce, " + what);
    const Tensor at_root = world.gpu.put(inputs[group.rank()], dtype);
    group.reduce(at_root, group.size() - 1, op);
    const Bytes got = world.gpu.get<std::byte>(at_root);
    if (group.rank() == group.size() - 1) {
      expect_reduced(dtype, op, inputs, got, "reduce, " + what);
    } else {
      expect(got == inputs[group.rank()], "reduce, " + what);
    }
  }
}

void reductions() {
  World world;
  for (std::size_t dtype = 0; dtype < kDTypes; ++dtype) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{1021}, std::size_t{100'003}}) {
      reduce_elements(world, static_cast<DType>(dtype), count);
    }
  }
}

/// Moves elements of a type in every way.
void move_elements(World& world, DType dtype) {
  constexpr std::size_t kCount = 1021;
  ProcessGroup& group = *world.group;
  const Rank size = group.size();
  const Rank rank = group.rank();
  const Inputs inputs = matrix::small_inputs(size, kCount, dtype);
  Bytes all;
  for (const Bytes& one : inputs) all.insert(all.end(), one.begin(), one.end());
  const Bytes blank(inputs[rank].size());
  const Bytes blank_of_all(all.size());
  const auto get = [&](const Tensor& tensor) { return world.gpu.get<std::byte>(tensor); };
  const std::string what(name_of(dtype));
  const Tensor own = world.gpu.put(inputs[rank], dtype);
  const Tensor whole = world.gpu.put(blank_of_all, dtype);
  group.all_gather_single(whole, own);
  expect(get(whole) == all, "all_gather of " + what);
  const Tensor exchanged = world.gpu.put(blank_of_all, dtype);
  group.all_to_all_single(exchanged, whole);
  Bytes mine;
  for (Rank from = 0; from < size; ++from) {
    mine.insert(mine.end(), inputs[rank].begin(), inputs[rank].end());
  }
  expect(get(exchanged) == mine, "all_to_all of " + what);
  const Tensor part = world.gpu.put(blank, dtype);
  group.scatter_single(part, rank == 0 ? whole : whole.slice(0, 0), 0);
  expect(get(part) == inputs[rank], "scatter of " + what);
  const Tensor gathered = world.gpu.put(blank_of_all, dtype);
  group.gather_single(rank == 0 ? gathered : gathered.slice(0, 0), part, 0);
  expect(rank != 0 || get(gathered) == all, "gather of " + what);
  group.broadcast(part, size - 1);
  expect(get(part) == inputs[size - 1], "broadcast of " + what);
  if (dtype == DType::int16) return;
  const Tensor reduced = world.gpu.put(blank, dtype);
  const Inputs wide = matrix::small_inputs(size, kCount * size, dtype);
  group.reduce_scatter_single(reduced, world.gpu.put(wide[rank], dtype));
  Inputs parts;
  for (const Bytes& one : wide) {
    const std::byte* const begin = one.data() + rank * blank.size();
    parts.emplace_back(begin, begin + blank.size());
  }
  expect_reduced(dtype, ReduceOp::sum, parts, get(reduced), "reduce_scatter of " + what);
}

void moves() {
  World world;
  for (std::size_t dtype = 0; dtype < kDTypes; ++dtype) {
    move_elements(world, static_cast<DType>(dtype));
  }
  ProcessGroup& group = *world.group;
  std::vector<std::int64_t> values = {static_cast<std::int64_t>(group.rank()) + 1};
  group.all_reduce(tensor_of(values));
  expect(values[0] == static_cast<std::int64_t>(group.size() * (group.size() + 1) / 2),
         "all_reduce on the host");
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
