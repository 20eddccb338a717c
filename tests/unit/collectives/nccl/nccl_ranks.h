// SPDX-License-Identifier: Apache-2.0
// Groups over the NCCL backend and its stand-ins: the ranks are threads, rank r has device r.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/errors.h"
#include "collectives/process_group.h"
#include "tests/unit/collectives/nccl/stand_in.h"
#include "tests/unit/collectives/thread_ranks.h"

namespace c10dd::test {

/// Returns a tensor of the values in memory of the device of a rank, which is memory of the host.
template <class T>
Tensor on_device(std::vector<T>& values, Rank rank, void* stream = nullptr) {
  Tensor tensor = tensor_of(values);
  tensor.device = {Device::Kind::cuda, static_cast<int>(rank)};
  tensor.stream = stream;
  return tensor;
}

inline GroupOptions over_nccl() { return {.backend = "nccl", .timeout = std::chrono::seconds(60)}; }

/// Waits until the condition holds. Returns false if it does not within 20 s.
template <class Condition>
bool await(Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

/// Each test begins with stand-ins that work.
class NcclTest : public ::testing::Test {
 protected:
  void SetUp() override { reset(); }

  /// Ends what the last test has left, and checks that no communicator was used while NCCL had not
  /// finished the call before.
  void TearDown() override {
    reset();
    EXPECT_TRUE(await([&] { return nccl.live_comms == 0; }));
    EXPECT_EQ(nccl.calls_in_progress, 0);
    EXPECT_EQ(nccl.made_ops, nccl.destroyed_ops);
  }

  void reset() {
    nccl.polls_in_progress = 0;
    nccl.stuck = false;
    nccl.failing_rank = -1;
    nccl.async_status = 6;
    nccl.issue_status = 0;
    nccl.never_connects = false;
    nccl.abort_ms = 0;
    nccl.version = 22809;
    cuda.devices = 8;
    cuda.init_status = 0;
    cuda.memory_left = 0;
    cuda.frees_hang = false;
  }

  stand_in::NcclControl& nccl = stand_in::nccl_control();
  stand_in::CudaControl& cuda = stand_in::cuda_control();
};

}  // namespace c10dd::test
