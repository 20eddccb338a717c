// SPDX-License-Identifier: Apache-2.0
// Work: the handle of one collective that was issued to a process group.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <c10dd/codes.h>
#include <c10dd/errors.h>
#include <c10dd/types.h>

namespace c10dd {

/// One issued collective. A Work keeps the tensors of the collective, with their `owner` fields,
/// until the collective has ended. The collective continues if a wait() times out or if the caller
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

  /// Blocks until the collective has ended. A collective that was started ends within its own
  /// time-out. If the status is then `failed` or `abandoned`, throws the exception that belongs to
  /// code(): TimedOut, Aborted, Unavailable (a peer was lost), or Error for the other codes.
  virtual void wait() = 0;

  /// Like wait(), but blocks for at most `timeout` and then throws TimedOut without a list of
  /// missing ranks. The collective continues after that, so its tensors must stay valid.
  virtual void wait(Duration timeout) = 0;

  virtual Code code() const = 0;          ///< code of the failure; ok if pending or done
  virtual std::string error() const = 0;  ///< the failure in one sentence; empty if pending or done

  /// Returns how long the backend ran the collective; 0 if the collective is pending or abandoned.
  virtual Duration duration() const = 0;

  /// Returns the position among the collectives of the group, from 0. The position is equal on all
  /// ranks if all ranks issue the same collectives.
  virtual std::uint64_t sequence() const = 0;
};

using WorkPtr = std::shared_ptr<Work>;

}  // namespace c10dd
