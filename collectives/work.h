// SPDX-License-Identifier: Apache-2.0
// Work: the handle of one operation that was issued to a process group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <c10dd/codes.h>
#include <c10dd/errors.h>
#include <c10dd/types.h>

namespace c10dd {

/// The message that a recv() has got.
struct Received {
  Rank source = 0;
  std::uint32_t tag = 0;
  std::size_t count = 0;  ///< elements, at most as many as the tensor of recv() has
};

/// One issued operation. A Work keeps the tensors of the operation, with their `owner` fields,
/// until the operation has ended. The operation continues if a wait() times out or if the caller
/// drops the Work. A Work can be used after its group was destroyed. Thread-safe. In a process that
/// was forked after the Work was issued, all methods except sequence() throw Forked.
class Work {
 public:
  enum class Status : std::uint8_t {
    pending,    ///< queued or running
    done,       ///< the result is in the output tensor
    failed,     ///< the output tensor's contents are undefined
    abandoned,  ///< not started, because its group had failed or was shut down; tensors unchanged
  };

  virtual ~Work() = default;

  /// Returns the status. Does not block.
  virtual Status status() const = 0;

  /// Returns whether the operation has ended. Does not block. Lets the backend make progress, if
  /// the backend needs the caller for that.
  virtual bool test() = 0;

  /// Blocks until the operation has ended. An operation that was started ends within its own
  /// time-out. If the status is then `failed` or `abandoned`, throws the exception that belongs to
  /// code(): TimedOut, Aborted, Unavailable (a peer was lost), or Error for the other codes. For
  /// tensors in cuda memory, calls wait(stream) with the stream of the tensors instead.
  virtual void wait() = 0;

  /// Orders a cuda stream behind the operation: what the caller puts on the stream afterwards runs
  /// after the operation. Blocks only until the operation is on its way on the device, which may be
  /// at once. Throws as wait() if it has failed by then. If it fails later, the stream goes on, and
  /// status() and the next operation of the group tell. For cpu memory, blocks as wait() does.
  virtual void wait(void* stream) = 0;

  /// As wait() for cpu memory, whatever memory the tensors are in: blocks until the operation has
  /// ended.
  virtual void wait_on_host() = 0;

  /// Like wait_on_host(), but blocks for at most `timeout` and then throws TimedOut without a list
  /// of missing ranks. The operation continues after that, so its tensors must stay valid.
  virtual void wait(Duration timeout) = 0;

  /// Calls `callback` once when the operation has ended, on the thread that ends the operation. If
  /// the operation has already ended, calls it at once, on this thread. `callback` must not throw,
  /// wait for work of any group, or open a group: the thread may be the one that ends other work.
  /// It may destroy the group.
  virtual void on_end(std::function<void(Work&)> callback) = 0;

  /// Aborts the group of the operation; see ProcessGroup::abort().
  virtual void abort(const std::string& reason) = 0;

  virtual Code code() const = 0;          ///< code of the failure; ok if pending or done
  virtual std::string error() const = 0;  ///< the failure in one sentence; empty if pending or done

  /// Returns the ranks that the failure names, with host and cause; empty if pending or done.
  virtual std::vector<Missing> failed_ranks() const = 0;

  /// Returns what a recv() has got; only if its status is done.
  virtual Received received() const = 0;

  /// Returns how long the backend ran the operation; 0 if the operation is pending or abandoned.
  virtual Duration duration() const = 0;

  /// Returns the position among the operations of the group, from 0. The position is equal on all
  /// ranks if all ranks issue the same operations. Sends and receives are numbered on their own.
  virtual std::uint64_t sequence() const = 0;
};

using WorkPtr = std::shared_ptr<Work>;

}  // namespace c10dd
