// SPDX-License-Identifier: Apache-2.0
#include "collectives/nccl/retirement.h"

#include <cstdlib>
#include <system_error>
#include <thread>
#include <utility>

#include "client/internal/per_process.h"
#include "protocol/format.h"
#include "protocol/wording.h"

namespace c10dd::collectives::nccl {
namespace {

constexpr auto kFinishLimit = std::chrono::seconds(10);
constexpr auto kDrainLimit = std::chrono::seconds(10);
constexpr auto kExitLimit = std::chrono::seconds(2);
constexpr auto kPoll = std::chrono::milliseconds(1);

/// Waits until the stream has done all that it has: NCCL waits only for its own streams, and this
/// one may still wait for the caller's. Returns whether it has, or has failed for ever.
bool drain(const CudaDevice& device, void* stream) {
  const auto end = device.make_event();
  if (!end || !(*end)->record(stream)) return true;
  const auto deadline = Retirement::Clock::now() + kDrainLimit;
  while (Retirement::Clock::now() < deadline) {
    const Result<bool> reached = (*end)->reached();
    if (!reached || *reached) return true;
    std::this_thread::sleep_for(kPoll);
  }
  return false;
}

void free(Retired& retired) {
  if (retired.stream != nullptr && !drain(*retired.device, retired.stream)) {
    // The operations may still use the tensors, so these are never freed.
    static_cast<void>(new std::shared_ptr<void>(std::move(retired.kept)));
    return;
  }
  retired.kept.reset();
  if (retired.stream != nullptr) retired.device->destroy_stream(retired.stream);
}

/// Finalizes the communicator. Returns whether it can be destroyed.
bool finalize(const Retired& retired) {
  const Api& api = retired.library->api();
  Status status = api.finalize(retired.comm);
  const auto deadline = Retirement::Clock::now() + kFinishLimit;
  while (status == Status::in_progress && Retirement::Clock::now() < deadline) {
    std::this_thread::sleep_for(kPoll);
    if (api.async_error(retired.comm, &status) != Status::success) return false;
  }
  return status == Status::success;
}

}  // namespace

Retirement& Retirement::instance() { return client::of_this_process<Retirement>(); }

std::shared_ptr<void> Retirement::reserve(const CudaDevice& device) {
  const std::lock_guard lock(mutex_);
  ++reserved_[&device];
  return {&reserved_, [this, &device](void*) {
            const std::lock_guard again(mutex_);
            --reserved_[&device];
            changed_.notify_all();
          }};
}

std::shared_ptr<void> Retirement::hold() {
  const std::lock_guard lock(mutex_);
  if (!waits_at_exit_) std::atexit([] { instance().await_held(kExitLimit); });
  waits_at_exit_ = true;
  ++held_;
  return {&held_, [this](void*) {
            const std::lock_guard again(mutex_);
            --held_;
            changed_.notify_all();
          }};
}

void Retirement::abort(Retired retired) {
  run([retired = std::move(retired)]() mutable {
    {
      const CudaDevice::Current current(*retired.device);
      if (retired.comm != nullptr) retired.library->api().abort(retired.comm);
    }
    free(retired);
  });
}

void Retirement::finish(Retired retired) {
  run([retired = std::move(retired)]() mutable {
    {
      const CudaDevice::Current current(*retired.device);
      const Api& api = retired.library->api();
      finalize(retired) ? api.destroy(retired.comm) : api.abort(retired.comm);
    }
    free(retired);
  });
}

void Retirement::run(std::function<void()> task) {
  const auto shared = std::make_shared<std::function<void()>>(std::move(task));
  const auto work = [held = hold(), shared]() mutable {
    (*shared)();
    *shared = {};  // what it holds ends before the exit of the process goes on
    held.reset();
  };
  try {
    std::thread(work).detach();
  } catch (const std::system_error&) {  // the process has as many threads as it may have
    auto here = work;
    here();
  }
}

Result<void> Retirement::await_free(const CudaDevice& device, Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  const auto begin = Clock::now();
  const auto free = [&] { return reserved_[&device] == 0; };
  if (changed_.wait_until(lock, deadline, free)) return {};
  return failure(
      Code::timed_out,
      "nccl: after {}, {} communicators of cuda:{} are still being aborted; restart this "
      "process",
      human(Clock::now() - begin), reserved_[&device], device.index());
}

void Retirement::await_held(Clock::duration limit) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, limit, [&] { return held_ == 0; });
}

}  // namespace c10dd::collectives::nccl
