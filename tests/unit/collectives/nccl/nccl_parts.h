// SPDX-License-Identifier: Apache-2.0
// The parts of the backend nccl, used one by one over its stand-ins: communicators and lanes of two
// ranks in one thread.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <vector>

#include "collectives/nccl/lane.h"
#include "collectives/nccl/library.h"
#include "tests/unit/collectives/nccl/nccl_ranks.h"
#include "tests/unit/collectives/seen_completion.h"

namespace c10dd::test {

inline const collectives::nccl::Library& nccl_library() {
  return **collectives::nccl::Library::load();
}

inline const collectives::nccl::CudaDevice& cuda_device(int index) {
  return **(*collectives::nccl::Cuda::start())->device(index);
}

/// Makes the communicators of ranks 0 to `ranks` - 1, which connect when they are first asked.
inline std::vector<collectives::nccl::Comm> make_comms(int ranks) {
  namespace nccl = collectives::nccl;
  nccl::UniqueId id{};
  EXPECT_EQ(nccl_library().api().unique_id(&id), nccl::Status::success);
  std::vector<nccl::Comm> comms(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    const nccl::CudaDevice::Current current(cuda_device(rank));
    nccl::Config config;
    EXPECT_EQ(nccl_library().api().init_rank_scalable(&comms[static_cast<std::size_t>(rank)], ranks,
                                                      rank, 1, &id, &config),
              nccl::Status::in_progress);
  }
  return comms;
}

/// Holds a stream until go(), or until it is destroyed.
class HeldStream {
 public:
  explicit HeldStream(void* stream) {
    stand_in::put_on_stream(stream, [go = gate_.get_future().share()] { go.wait(); });
  }
  HeldStream(const HeldStream&) = delete;
  HeldStream& operator=(const HeldStream&) = delete;
  ~HeldStream() { go(); }
  void go() {
    if (!gone_) gate_.set_value();
    gone_ = true;
  }

 private:
  std::promise<void> gate_;
  bool gone_ = false;
};

/// An operation of a lane on one value in memory of its device, and its end. The value belongs to
/// the operation.
struct LaneCall {
  LaneCall(Rank rank, float of) : LaneCall(Collective::all_reduce, rank, of) {}
  LaneCall(Collective collective, Rank rank, float of)
      : value(std::make_shared<std::vector<float>>(1, of)) {
    Tensor tensor = on_device(*value, rank);
    tensor.owner = value;
    operation.collective = collective;
    operation.peer = 1 - rank;
    (collective == Collective::send ? operation.input : operation.output) = std::move(tensor);
    within(std::chrono::hours(1));
  }
  void within(Duration timeout) {
    operation.timeout = timeout;
    operation.deadline = std::chrono::steady_clock::now() + timeout;
  }
  /// Lets go of the value. Returns what tells whether the lane has done so, too.
  std::weak_ptr<void> drop() {
    const std::weak_ptr<void> held = value;
    value.reset();
    operation.output = operation.input = {};
    return held;
  }

  std::shared_ptr<std::vector<float>> value;
  Operation operation;
  SeenCompletion end;
};

/// The lanes of two ranks. Checks at the end that nothing is held.
struct TwoLanes {
  TwoLanes() {
    namespace nccl = collectives::nccl;
    const std::vector<nccl::Comm> comms = make_comms(2);
    for (Rank rank = 0; rank < 2; ++rank) {
      const nccl::CudaDevice& device = cuda_device(static_cast<int>(rank));
      streams[rank] = *device.make_stream();
      lanes[rank] = std::make_shared<nccl::Lane>(nccl_library(), device, comms[rank], streams[rank],
                                                 rank, 2, settings);
    }
  }
  ~TwoLanes() {
    for (auto& lane : lanes) {
      const std::weak_ptr<void> held = lane;
      lane->close();
      lane.reset();
      EXPECT_TRUE(await([&] { return held.expired(); })) << "the worker keeps a lane";
    }
    EXPECT_TRUE(await([&] { return settings.use_count() == 1; }));
  }
  void start(Rank rank, LaneCall& call) { lanes[rank]->start(call.operation, call.end); }
  /// Runs one operation on both ranks.
  void expect_works() {
    LaneCall calls[2] = {{0, 3.0F}, {1, 4.0F}};
    for (Rank rank = 0; rank < 2; ++rank) start(rank, calls[rank]);
    for (LaneCall& call : calls) {
      EXPECT_EQ(call.end.code(), Code::ok) << call.end.text();
      EXPECT_EQ(call.value->front(), 7.0F);
    }
  }

  const std::shared_ptr<int> settings = std::make_shared<int>();
  void* streams[2] = {};
  std::shared_ptr<collectives::nccl::Lane> lanes[2];
};

}  // namespace c10dd::test
