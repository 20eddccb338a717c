// SPDX-License-Identifier: Apache-2.0
// Lane: runs the operations of one communicator, one after the other on a stream of its own. A
// group has two lanes: one for collectives, and one for sends and receives, which may wait for
// their peers.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "collectives/backend.h"
#include "collectives/nccl/cuda_driver.h"
#include "collectives/nccl/host_copy.h"
#include "collectives/nccl/library.h"
#include "collectives/nccl/operations.h"
#include "collectives/nccl/retirement.h"
#include "collectives/nccl/worker.h"

namespace c10dd::collectives::nccl {

/// Owns the communicator and the stream. Thread-safe, except for issue() and poll().
class Lane final : public Worker::Task, public std::enable_shared_from_this<Lane> {
 public:
  using Clock = Worker::Clock;

  /// `settings`: destroyed after the communicator, which has a pointer to its name.
  Lane(const Library& library, const CudaDevice& device, Comm comm, void* stream, Rank rank,
       Rank size, std::shared_ptr<const void> settings);

  /// Calls `listener` once, when the lane has failed; at once, if it has failed already. Called
  /// once.
  using Listener = std::function<void(const Failure&)>;
  void on_failure(Listener listener);

  /// Starts an operation, see Backend::start(). Does not block.
  void start(const Operation& operation, Completion& completion);

  /// A call of NCCL that takes a place among the operations.
  using Call = std::function<Issued(Comm)>;
  /// Starts a call of NCCL. `operation` has the deadline; `name` names the call in errors.
  void start_call(Call call, const char* name, const Operation& operation, Completion& completion);

  /// Ends all operations, and all later ones, with this failure, unless the lane has failed. The
  /// operations have ended when this returns; what they use is kept until the communicator is
  /// aborted.
  void fail(const Failure& reason);

  /// Frees the communicator, on another thread. Called once, when no operation is pending.
  void close();

  void issue() override;
  Step poll(Clock::time_point now) override;

 private:
  /// An operation that has not been let go.
  struct Entry {
    Operation operation;      // its tensors are in the memory of the device
    bool is_barrier = false;  // for which `byte` is reduced, because NCCL has no barrier
    std::uint8_t byte = 0;
    Completion* completion = nullptr;  // null: the operation has ended; guarded by mutex_
    std::unique_ptr<HostCopy> copy;    // if the tensors of the caller are in cpu memory
    std::vector<std::shared_ptr<CudaEvent>>
        ready;              // the streams of the tensors, when it was issued
    Call call;              // instead of an operation
    const char* name = "";  // of the call
  };
  /// Entries that are issued together.
  struct Unit {
    std::vector<std::shared_ptr<Entry>> entries;
    /// In front of it on the stream; null if it has no operation, or if it has begun.
    std::shared_ptr<CudaEvent> begin = {};
    std::shared_ptr<CudaEvent> end = {};
    MadeOps made = {};
  };

  Result<void> prepare(Entry& entry) const;
  void add(std::shared_ptr<Entry> entry, Completion& completion);
  Result<void> begin(Unit& unit);
  Result<void> put_behind(Unit& unit);
  bool advance();
  bool issue_next();
  bool end_reached();
  bool begin_reached();
  void tell_begun(Unit& unit);
  void end(const Unit& unit);
  std::optional<Failure> find_late(Clock::time_point now);
  bool retire();
  static std::string name(const Entry& entry);
  static Failure failed(const Entry& entry, const Failure& why);
  Failure failed(const Entry& entry, const char* call, Status status) const;
  void fail_on_worker(const Failure& reason);
  using Ends = std::vector<std::pair<std::shared_ptr<Entry>, Completion*>>;
  Listener die(const Failure& reason, Ends& ends);
  static void complete_all(const Ends& ends, const Failure& reason);
  Channel channel() const;

  const Library& library_;
  const CudaDevice& device_;
  const Rank rank_;
  const Rank size_;
  const std::shared_ptr<const void> settings_;

  // Only for the worker's thread.
  Comm comm_;
  void* stream_;
  std::optional<Unit> issuing_;  // NCCL has returned in_progress
  std::deque<Unit> running_;     // on the stream, in this order
  std::size_t on_stream_ = 0;    // operations of running_
  bool retired_ = false;

  std::mutex mutex_;  // guards all members below
  Listener listener_ = [](const Failure&) {};
  std::deque<std::shared_ptr<Entry>> entries_;  // all that have not ended, and some that have
  std::map<std::uint64_t, Unit> gathering_;     // by Operation::batch: not complete yet
  std::deque<Unit> queue_;                      // not issued yet
  Clock::time_point next_deadline_ = Clock::time_point::max();
  std::optional<Failure> dead_;
  std::shared_ptr<void> reserved_;  // if dead_: keeps the device from being free
  std::shared_ptr<void> held_;      // if dead_ or closed_: lets the exit wait for the communicator
  bool closed_ = false;
};

}  // namespace c10dd::collectives::nccl
