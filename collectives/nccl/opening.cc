// SPDX-License-Identifier: Apache-2.0
#include "collectives/nccl/opening.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "collectives/nccl/retirement.h"
#include "protocol/format.h"
#include "protocol/wording.h"

namespace c10dd::collectives::nccl {
namespace {

/// One communicator that is being created.
class Opening final : public Worker::Task {
 public:
  Opening(const Library& library, const CudaDevice& device, std::function<Issued(Comm*)> begin)
      : library_(library), device_(device), begin_(std::move(begin)) {}

  void issue() override {
    {
      const std::lock_guard lock(mutex_);
      if (abandoned_) return;
    }
    const CudaDevice::Current current(device_);
    issued_ = begin_(&comm_);
  }

  /// Nobody waits any more.
  void abandon() {
    const std::lock_guard lock(mutex_);
    abandoned_ = true;
  }

  Step poll(Worker::Clock::time_point) override {
    const CudaDevice::Current current(device_);
    const bool began = comm_ != nullptr;
    if (began && (issued_.status == Status::in_progress || issued_.status == Status::success)) {
      issued_.call = "ncclCommGetAsyncError";
      const Status asked = library_.api().async_error(comm_, &issued_.status);
      if (asked != Status::success) issued_.status = asked;
    }
    const std::lock_guard lock(mutex_);
    if (!abandoned_ && issued_.status == Status::in_progress) return Step::waits;
    const bool good = !abandoned_ && issued_.status == Status::success;
    result_ = good ? Result<Comm>(comm_) : Result<Comm>(end_locked());
    ended_.notify_all();
    return Step::ended;
  }

  std::optional<Result<Comm>> await(Worker::Clock::time_point deadline) {
    std::unique_lock lock(mutex_);
    if (ended_.wait_until(lock, deadline, [&] { return result_.has_value(); })) return result_;
    abandoned_ = true;
    return std::nullopt;
  }

 private:
  Failure end_locked() {
    const bool lost =
        issued_.status == Status::remote_error || issued_.status == Status::system_error;
    Failure why = failure(lost ? Code::unavailable : Code::internal,
                          library_.text_of(issued_.call, issued_.status, comm_));
    if (comm_ != nullptr) {
      Retirement& retirement = Retirement::instance();
      retirement.abort({.library = &library_,
                        .device = &device_,
                        .comm = comm_,
                        .kept = std::make_shared<std::function<Issued(Comm*)>>(begin_),
                        .reserved = retirement.reserve(device_)});
    }
    return why;
  }

  const Library& library_;
  const CudaDevice& device_;
  const std::function<Issued(Comm*)> begin_;
  Comm comm_ = nullptr;  // of the worker's thread, as issued_
  Issued issued_;

  std::mutex mutex_;  // guards all members below
  std::condition_variable ended_;
  std::optional<Result<Comm>> result_;
  bool abandoned_ = false;
};

}  // namespace

Result<Comm> open_comm(const Library& library, const CudaDevice& device,
                       std::function<Issued(Comm*)> begin, const std::string& group,
                       Worker::Clock::time_point deadline) {
  const Result<void> allowed = Worker::require_other_thread("a process group cannot be opened");
  if (!allowed) return allowed.error();
  const auto start = Worker::Clock::now();
  const auto opening = std::make_shared<Opening>(library, device, std::move(begin));
  if (const Result<void> woken = Worker::instance().wake(opening); !woken) {
    opening->abandon();
    return woken.error();
  }
  const std::optional<Result<Comm>> result = opening->await(deadline);
  if (!result) {
    return failure(
        Code::timed_out,
        "nccl: process group \"{}\" was not connected within {}: a rank did not join, or "
        "NCCL cannot reach it; set NCCL_DEBUG=INFO to see what NCCL waits for",
        group, human(Worker::Clock::now() - start));
  }
  if (*result) return **result;
  return failure(result->error().code, "nccl: process group \"{}\" was not connected: {}", group,
                 result->error().detail);
}

}  // namespace c10dd::collectives::nccl
