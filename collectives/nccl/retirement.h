// SPDX-License-Identifier: Apache-2.0
// Retirement: ends communicators, each on a thread of its own, because ncclCommAbort takes about
// half a second, and returns only when the operations of the other communicators that hang on the
// device are aborted, too: so they must be aborted at the same time.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "collectives/nccl/cuda_driver.h"
#include "collectives/nccl/library.h"

namespace c10dd::collectives::nccl {

/// A communicator that nobody uses any more.
struct Retired {
  const Library* library = nullptr;
  const CudaDevice* device = nullptr;
  Comm comm = nullptr;
  void* stream = nullptr;               ///< destroyed after the communicator; may be null
  std::shared_ptr<void> kept = {};      ///< destroyed when the stream has ended: tensors
  std::shared_ptr<void> reserved = {};  ///< destroyed then: the result of reserve()
  std::shared_ptr<void> held = {};      ///< destroyed last: the result of hold()
};

/// The communicators of this process that are being ended. When the process exits, waits a moment
/// for them. Thread-safe.
class Retirement {
 public:
  using Clock = std::chrono::steady_clock;

  static Retirement& instance();

  /// Makes await_free() of the device wait until the result is destroyed.
  [[nodiscard]] std::shared_ptr<void> reserve(const CudaDevice& device);

  /// Makes the exit of the process wait a moment until the result is destroyed.
  [[nodiscard]] std::shared_ptr<void> hold();

  /// Stops the operations of a communicator, and frees it.
  void abort(Retired retired);

  /// Lets a communicator without operations send what its peers still need, and frees it. Aborts it
  /// if that takes more than 10 s.
  void finish(Retired retired);

  /// Calls `task` on a thread of its own, for which the exit of the process waits, too. If no
  /// thread can be created, calls it on this one.
  void run(std::function<void()> task);

  /// Blocks until the device has no communicator that is being aborted, at most until `deadline`.
  Result<void> await_free(const CudaDevice& device, Clock::time_point deadline);

 private:
  void await_held(Clock::duration limit);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<const CudaDevice*, int> reserved_;
  int held_ = 0;
  bool waits_at_exit_ = false;
};

}  // namespace c10dd::collectives::nccl
