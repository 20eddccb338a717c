// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/scenarios.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "client/client.h"
#include "client/errors.h"
#include "client/membership.h"
#include "protocol/format.h"
#include "tests/gpu/device_values.h"
#include "tests/unit/collectives/expected.h"

namespace c10dd::gpu {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using test::each_type;
using test::factor_of;
using test::Inputs;
using test::inputs_of;
using test::number;
using test::reduction_of;

constexpr CallOptions kAsync{.async = true};

void expect(bool good, const std::string& what) {
  if (!good) throw std::runtime_error(what);
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

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

/// A group of all ranks of the launcher.
struct World {
  World() : group(ProcessGroup::open(client, {.backend = "nccl", .timeout = 60s})) {
    if (group->rank() == 0) std::printf("  %s\n", group->describe().c_str());
  }
  /// The index of the GPU, which the group has chosen.
  static int index(const ProcessGroup& group) {
    const std::string text = group.describe();
    return std::stoi(text.substr(text.find("cuda:") + 5));
  }

  const std::shared_ptr<Client> client = Client::from_environment();
  const std::shared_ptr<ProcessGroup> group;
  Gpu gpu{index(*group)};
};

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

/// Aborts a collective that hangs, and goes on in a new group.
void abort() {
  World world;
  const Tensor tensor = world.gpu.put(std::vector<float>(1000, 1.0f), DType::float32);
  if (world.group->rank() == 0) {
    const WorkPtr work = world.group->all_reduce(tensor, ReduceOp::sum, kAsync);
    std::this_thread::sleep_for(300ms);
    const auto begin = Clock::now();
    world.group->abort("the test says so");
    expect(work->status() != Work::Status::pending, "the work is pending after abort()");
    std::printf("  the work failed %.3f s after abort()\n", seconds_since(begin));
  } else {
    std::this_thread::sleep_for(500ms);
    world.group->abort("the test says so");
  }
  const auto begin = Clock::now();
  const c10dd::World next = {
      .rank = world.group->rank(), .size = world.group->size(), .generation = 1};
  const auto group = ProcessGroup::open(world.client, next, {.backend = "nccl", .timeout = 60s});
  const Tensor again = world.gpu.put(std::vector<float>{1}, DType::float32);
  group->all_reduce(again);
  expect(world.gpu.get<float>(again).front() == static_cast<float>(group->size()),
         "the sum in the next group");
  std::printf("  rank %u: the next group had its first sum after %.3f s\n", next.rank,
              seconds_since(begin));
}

/// One rank is killed in a collective; the others learn who it was, and go on.
void kill_a_rank() {
  const auto client = Client::from_environment();
  const auto membership = client->rendezvous({.min = 2, .max = 3, .last_call = 100ms});
  auto group = ProcessGroup::open(membership, {.backend = "nccl", .timeout = 60s});
  Gpu gpu(World::index(*group));
  group->barrier();
  if (client->rank() == 2) kill(getpid(), SIGKILL);
  const auto begin = Clock::now();
  std::string text;
  try {
    while (true) {
      group->all_reduce(gpu.put(std::vector<float>{1}, DType::float32))->wait_on_host();
    }
  } catch (const Aborted& error) {
    text = error.what();
    expect(error.missing().size() == 1, "the error names no rank: " + text);
  }
  std::printf("  %.3f s after the barrier: %s\n", seconds_since(begin), text.c_str());
  const auto failed = Clock::now();
  group.reset();
  membership->next();
  group = ProcessGroup::open(membership, {.backend = "nccl", .timeout = 60s});
  const Tensor one = gpu.put(std::vector<float>{1}, DType::float32);
  group->all_reduce(one);
  expect(gpu.get<float>(one).front() == 2, "the sum of the survivors");
  expect(seconds_since(failed) < 2.5, "the survivors needed more than 2.5 s for a new group");
}

}  // namespace

const Scenario scenarios[kScenarios] = {
    {"reductions", 1, 1, reductions}, {"moves", 1, 1, moves},
    {"reductions", 2, 2, reductions}, {"moves", 3, 3, moves},
    {"messages", 2, 2, messages},     {"streams", 2, 2, streams},
    {"subgroups", 4, 4, subgroups},   {"abort", 2, 2, abort},
    {"kill", 3, 2, kill_a_rank},
};

}  // namespace c10dd::gpu
