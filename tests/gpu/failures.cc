// SPDX-License-Identifier: Apache-2.0
// What a group on a GPU does when its ranks fail: they stay away, stop, are killed, or give up.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/errors.h"
#include "client/membership.h"
#include "tests/gpu/scenarios.h"
#include "tests/gpu/world.h"

namespace c10dd::gpu {
namespace {

using namespace std::chrono_literals;

constexpr CallOptions kAsync{.async = true};

/// Opens another group of the same ranks, and sums in it.
void sum_in_next_group(World& world) {
  const auto begin = Clock::now();
  const c10dd::World next = {
      .rank = world.group->rank(), .size = world.group->size(), .generation = 1};
  const auto group = ProcessGroup::open(world.client, next, {.backend = "nccl", .timeout = 60s});
  const Tensor one = world.gpu.put(std::vector<float>{1}, DType::float32);
  group->all_reduce(one);
  expect(world.gpu.get<float>(one).front() == static_cast<float>(group->size()),
         "the sum in the next group");
  std::printf("  rank %u: the next group had its first sum after %.3f s\n", next.rank,
              seconds_since(begin));
}

/// A group of three ranks, made by a rendezvous, which loses rank 2.
struct Trio {
  Trio() : gpu(World::index(*group)) { group->barrier(); }

  /// Sums until the loss of rank 2 ends the sums, which the error must say. Then goes on with the
  /// other rank.
  void go_on_without_rank_2() {
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
    std::printf("  %.3f s later: the sum of the survivors\n", seconds_since(failed));
    expect(seconds_since(failed) < 2.5, "the survivors needed more than 2.5 s for a new group");
  }

  const std::shared_ptr<Client> client = Client::from_environment();
  const std::shared_ptr<Membership> membership =
      client->rendezvous({.min = 2, .max = 3, .last_call = 100ms});
  std::shared_ptr<ProcessGroup> group =
      ProcessGroup::open(membership, {.backend = "nccl", .timeout = 60s});
  Gpu gpu;
};

}  // namespace

/// Aborts a collective that hangs, and goes on in a new group.
void abort_a_group() {
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
  sum_in_next_group(world);
}

/// Aborts four groups whose collectives hang, one after the other. NCCL can only stop kernels of
/// one GPU together: a call that aborts one group waits for the kernels of all.
void abort_many_groups() {
  World world;
  std::vector<std::shared_ptr<ProcessGroup>> groups;
  for (int i = 0; i < 4; ++i) groups.push_back(world.group->new_group({0, 1}));
  const Tensor tensor = world.gpu.put(std::vector<float>(1000, 1.0f), DType::float32);
  for (const auto& group : groups) group->all_reduce(tensor, ReduceOp::sum);
  std::vector<WorkPtr> works;
  if (world.group->rank() == 0) {
    for (const auto& group : groups) {
      works.push_back(group->all_reduce(tensor, ReduceOp::sum, kAsync));
    }
  }
  std::this_thread::sleep_for(300ms);
  const auto begin = Clock::now();
  for (const auto& group : groups) group->abort("the test says so");
  world.group->abort("the test says so");
  for (const WorkPtr& work : works) {
    expect(work->status() != Work::Status::pending, "a work is pending after abort()");
  }
  groups.clear();
  std::printf("  rank %u: five groups were aborted and four closed after %.3f s\n",
              world.group->rank(), seconds_since(begin));
  sum_in_next_group(world);
}

/// Rank 1 does not come: the time-out of rank 0 says so.
void stay_away() {
  const auto client = Client::from_environment();
  const auto group = ProcessGroup::open(client, {.backend = "nccl", .timeout = 3s});
  Gpu gpu(World::index(*group));
  group->barrier();
  if (group->rank() == 1) {
    std::this_thread::sleep_for(6s);
    return;
  }
  const auto begin = Clock::now();
  try {
    group->all_reduce(gpu.put(std::vector<float>{1}, DType::float32))->wait_on_host();
    expect(false, "an all_reduce without rank 1 has ended");
  } catch (const TimedOut& error) {
    std::printf("  %.3f s: %s\n", seconds_since(begin), error.what());
    expect(error.missing().size() == 1 && error.missing()[0].rank == 1, "rank 1 is not named");
  }
  expect(seconds_since(begin) < 5, "the time-out came late");
}

/// Rank 2 is killed in a collective.
void kill_a_rank() {
  Trio trio;
  if (trio.client->rank() == 2) kill(getpid(), SIGKILL);
  trio.go_on_without_rank_2();
}

/// Rank 2 is stopped in a collective: its connections stay, its heartbeats do not come. When the
/// others have gone on, rank 0 kills it.
void stop_a_rank() {
  Trio trio;
  if (trio.client->rank() == 2) {
    trio.client->store()->set("stopped", std::to_string(getpid()));
    raise(SIGSTOP);
  }
  trio.go_on_without_rank_2();
  if (trio.client->rank() == 0) kill(std::stoi(trio.client->store()->get("stopped", 10s)), SIGKILL);
}

}  // namespace c10dd::gpu
